//! Rust types that stand for plain element types. Neighbour: `convert` reads and stores whole slices of them.

use crate::DType;
use bytemuck::Pod;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose values are the elements of some plain [`DType`]. Sealed: the set is that of the plain types.
pub trait Element: Pod + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed {
    /// The element type that this Rust type stands for.
    const DTYPE: DType;
    /// Returns the value as f64, exact for all but 64-bit integers past 2^53.
    fn to_f64(self) -> f64;
    /// Returns the nearest value to `x`; integers round toward zero and saturate, NaN becomes 0.
    fn from_f64(x: f64) -> Self;
}

macro_rules! element {
    ($($rust:ty => $dtype:ident, $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 {
                let to: fn($rust) -> f64 = $to;
                to(self)
            }
            fn from_f64(x: f64) -> Self {
                let from: fn(f64) -> $rust = $from;
                from(x)
            }
        }
        // The size table and the Rust type cannot drift apart.
        const _: () = assert!(size_of::<$rust>() == DType::$dtype.size());
    )*};
}

element! {
    f32 => F32, |x| x as f64, |x| x as f32;
    f16 => F16, |x| x.to_f64(), |x| f16::from_f32(round_to_odd(x));
    bf16 => BF16, |x| x.to_f64(), |x| bf16::from_f32(round_to_odd(x));
    f64 => F64, |x| x, |x| x;
    i8 => I8, |x| x as f64, |x| x as i8;
    i16 => I16, |x| x as f64, |x| x as i16;
    i32 => I32, |x| x as f64, |x| x as i32;
    i64 => I64, |x| x as f64, |x| x as i64;
    u8 => U8, |x| x as f64, |x| x as u8;
    u16 => U16, |x| x as f64, |x| x as u16;
    u32 => U32, |x| x as f64, |x| x as u32;
    u64 => U64, |x| x as f64, |x| x as u64;
}

/// Returns the f32 next to `x` toward zero, made odd when it is not exact: rounding that again to half the width is then
/// the same as rounding `x` once. (`half`'s own conversions from f64 drop the bits that decide near a tie.)
fn round_to_odd(x: f64) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    if back == x || nearest.is_nan() {
        return nearest;
    }
    let bits = nearest.to_bits();
    let toward_zero = if back.abs() > x.abs() { bits - 1 } else { bits };
    f32::from_bits(toward_zero | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_once() {
        // A tie, and the least more than a tie, with the excess far below what f32 can hold.
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(<bf16 as Element>::from_f64(tie).to_f64(), 1.0);
        assert_eq!(<bf16 as Element>::from_f64(tie + 2f64.powi(-50)).to_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!(
            <f16 as Element>::from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-50)).to_f64(),
            1.0 + 2f64.powi(-10)
        );
        assert_eq!(<f16 as Element>::from_f64(65_519.999).to_f64(), 65_504.0);
        assert_eq!(<f16 as Element>::from_f64(65_520.0).to_f64(), f64::INFINITY);
        assert_eq!(<bf16 as Element>::from_f64(-1e-300).to_f64(), 0.0);
        assert!(<f16 as Element>::from_f64(f64::NAN).is_nan());
    }

    #[test]
    fn integers_saturate_and_truncate() {
        assert_eq!(i8::from_f64(300.0), 127);
        assert_eq!(i8::from_f64(-1.9), -1);
        assert_eq!(u8::from_f64(-5.0), 0);
        assert_eq!(u8::from_f64(f64::NAN), 0);
    }
}
