//! Conversions of f16.

use silicide_gemm::isa::Simd;
use silicide_quant::{Element, f16};

#[test]
fn every_half_widens_and_returns() {
    fn check(isa: impl Simd) {
        // A length that no vector divides: the tail is converted too.
        let halves: Vec<f16> = (0..=u16::MAX).rev().chain(0..5).map(f16::from_bits).collect();
        let mut wide = vec![0.0; halves.len()];
        isa.widen_f16(&halves, &mut wide);
        for (half, wide) in halves.iter().zip(&wide) {
            let expected = half.to_f32();
            assert!(expected.to_bits() == wide.to_bits() || (expected.is_nan() && wide.is_nan()), "{half}");
        }
        let mut back = vec![f16::ZERO; halves.len()];
        isa.narrow_f16(&wide, &mut back);
        for (half, back) in halves.iter().zip(&back) {
            assert!(half.to_bits() == back.to_bits() || (half.is_nan() && back.is_nan()), "{half}");
        }
    }
    for_every_isa!(check());
}

#[test]
fn narrowing_rounds_as_the_definition_does() {
    fn check(isa: impl Simd, values: &[f32]) {
        let mut narrow = vec![f16::ZERO; values.len()];
        isa.narrow_f16(values, &mut narrow);
        for (value, got) in values.iter().zip(&narrow) {
            let expected = <f16 as Element>::from_f64(f64::from(*value));
            assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()), "{value:e}");
        }
    }
    // Every upper half, with the lower bits that decide ties and their neighbours.
    let low = [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0xffff];
    let values = (0..=u16::MAX).flat_map(|high| low.map(|low| f32::from_bits(u32::from(high) << 16 | low)));
    let values: Vec<f32> = values.collect();
    for_every_isa!(check(&values));
}
