//! Rust types that stand for element types, and the exact (f64) reading of stored elements.

use crate::DType;
use bytemuck::Pod;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose values are the elements of some [`DType`]. Sealed: the set is that of `DType`.
pub trait Element: Pod + PartialEq + std::fmt::Debug + Send + Sync + sealed::Sealed {
    /// The element type that this Rust type stands for.
    const DTYPE: DType;
    /// The value as f64, exact for all but 64-bit integers past 2^53.
    fn to_f64(self) -> f64;
    /// The nearest value to `x`; integers round toward zero and saturate, NaN becomes 0.
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

/// The f32 next to `x` toward zero, made odd when it is not exact: rounding that again to half the width is then
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

/// Calls a generic function for the Rust type of a dtype.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F16 => {
                type $T = f16;
                $body
            }
            DType::BF16 => {
                type $T = bf16;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::I8 => {
                type $T = i8;
                $body
            }
            DType::I16 => {
                type $T = i16;
                $body
            }
            DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::U8 => {
                type $T = u8;
                $body
            }
            DType::U16 => {
                type $T = u16;
                $body
            }
            DType::U32 => {
                type $T = u32;
                $body
            }
            DType::U64 => {
                type $T = u64;
                $body
            }
        }
    };
}

/// Reads stored elements as f64. Trailing bytes that make no whole element are ignored.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    with_type!(dtype, T => bytes
        .chunks_exact(size_of::<T>())
        .map(|chunk| bytemuck::pod_read_unaligned::<T>(chunk).to_f64())
        .collect())
}

/// Stores f64 values as elements of `dtype`, rounding as [`Element::from_f64`] does.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    with_type!(dtype, T => values
        .iter()
        // Spelt out: `half` has a `from_f64` of its own, which would win, and rounds less well.
        .flat_map(|&value| bytemuck::bytes_of(&<T as Element>::from_f64(value)).to_vec())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_integers_survive_every_type() {
        for dtype in DType::ALL {
            let values = [0.0, 1.0, 2.0, 100.0, 127.0];
            let bytes = encode(dtype, &values);
            assert_eq!(bytes.len(), values.len() * dtype.size(), "{dtype}");
            assert_eq!(decode(dtype, &bytes), values, "{dtype}");
        }
    }

    #[test]
    fn halves_round_once() {
        // A tie, and the least more than a tie, with the excess far below what f32 can hold.
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(<bf16 as Element>::from_f64(tie).to_f64(), 1.0);
        assert_eq!(decode(DType::BF16, &encode(DType::BF16, &[tie + 2f64.powi(-50)])), [1.0 + 2f64.powi(-7)]);
        assert_eq!(<bf16 as Element>::from_f64(tie + 2f64.powi(-50)).to_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!(
            <f16 as Element>::from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-50)).to_f64(),
            1.0 + 2f64.powi(-10)
        );
        assert_eq!(<f16 as Element>::from_f64(65_519.999).to_f64(), 65_504.0);
        assert_eq!(<f16 as Element>::from_f64(65_520.0).to_f64(), f64::INFINITY);
        assert_eq!(<bf16 as Element>::from_f64(-1e-300).to_f64(), 0.0);
        assert!(<f16 as Element>::from_f64(f64::NAN).is_nan());
        // And so does everything that is stored.
        let above = [-(tie + 2f64.powi(-40))];
        assert_eq!(decode(DType::BF16, &encode(DType::BF16, &above)), [-1.0 - 2f64.powi(-7)]);
    }

    #[test]
    fn integers_saturate_and_truncate() {
        assert_eq!(i8::from_f64(300.0), 127);
        assert_eq!(i8::from_f64(-1.9), -1);
        assert_eq!(u8::from_f64(-5.0), 0);
        assert_eq!(u8::from_f64(f64::NAN), 0);
    }
}
