//! Conversions between f16 and f32 in plain Rust.

/// Converts f16 bits to f32, without branches.
#[inline(always)]
pub(super) fn widen(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let size = u32::from(bits & 0x7fff);
    // Moving the exponent by multiplication is exact and makes subnormals normal.
    let value = (f32::from_bits(size << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let value = if size >= 0x7c00 { value | 0x7f80_0000 } else { value };
    f32::from_bits(value | sign)
}

/// Converts the bits of eight f16s to f32. Every aarch64 has an instruction for it.
#[inline(always)]
pub(super) fn widen_eight(halves: [u16; 8]) -> [f32; 8] {
    let mut wide = [0.0; 8];
    #[cfg(target_arch = "aarch64")]
    for (to, from) in wide.as_chunks_mut::<4>().0.iter_mut().zip(halves.as_chunks::<4>().0) {
        *to = super::neon::widen_four(*from);
    }
    #[cfg(not(target_arch = "aarch64"))]
    for (to, from) in wide.iter_mut().zip(halves) {
        *to = widen(from);
    }
    wide
}

/// Converts f32 to f16 bits, to nearest even, without branches.
#[inline(always)]
pub(super) fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let size = bits & 0x7fff_ffff;
    // Below the smallest normal half, adding 0.5 leaves the significand rounded to units of 2^-24 at the bottom.
    let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = (size.wrapping_add(0xfff + ((size >> 13) & 1)) >> 13).wrapping_sub(0x1_c000).min(0x7c00);
    let result = if size < 0x3880_0000 { small } else { normal };
    let result = if size > 0x7f80_0000 { 0x7e00 } else { result };
    (result | sign) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Simd, for_every_isa};
    use silicide_quant::{Element, f16};

    #[test]
    fn every_half_widens_and_returns() {
        for bits in 0..=u16::MAX {
            let wide = widen(bits);
            let expected = f16::from_bits(bits).to_f32();
            assert!(
                wide.to_bits() == expected.to_bits() || (wide.is_nan() && expected.is_nan()),
                "{bits:#x}"
            );
            assert!(narrow(wide) == bits || wide.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn narrowing_rounds_as_the_definition_does() {
        for step in 0..=u16::MAX {
            // Every upper half, with the lower bits that decide ties and their neighbours.
            for low in [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0xffff] {
                let value = f32::from_bits(u32::from(step) << 16 | low);
                let expected = <f16 as Element>::from_f64(f64::from(value));
                let got = f16::from_bits(narrow(value));
                assert!(
                    got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                    "{value:e}"
                );
            }
        }
    }

    #[test]
    fn the_machine_converts_as_the_portable_code_does() {
        fn check(isa: impl Simd) {
            let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            let mut wide = vec![0.0; halves.len()];
            isa.widen_f16(halves.split_at(65_531).0, &mut wide);
            for (half, wide) in halves.iter().zip(&wide).take(65_531) {
                let expected = widen(half.to_bits());
                assert!(expected.to_bits() == wide.to_bits() || (expected.is_nan() && wide.is_nan()));
            }
            let mut back = vec![f16::ZERO; halves.len()];
            isa.narrow_f16(&wide, &mut back);
            for (half, back) in halves.iter().zip(&back).take(65_531) {
                assert!(half.to_bits() == back.to_bits() || (half.is_nan() && back.is_nan()));
            }
        }
        for_every_isa!(check());
    }
}
