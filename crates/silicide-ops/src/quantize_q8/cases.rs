//! Cases of `quantize_q8`: one group and many, one row and many tiles, magnitudes from tiny to huge, zeros, and what is not finite.

use super::{QuantizeQ8, infer_quantized, quantized_bytes};
use crate::case::{Case, Data, Input};
use silicide_core::kernel::TensorInfo;
use silicide_quant::DType;

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: &str, extents: &[usize], data: Data| {
        let label = format!("{label}, {extents:?}");
        cases.push(Case::new(label, QuantizeQ8, vec![Input::of(DType::F32, extents, data)]));
    };
    for extents in [&[32][..], &[1, 96], &[3, 128], &[2, 3, 576], &[70, 4096], &[1, 20000 / 32 * 32]] {
        add("normal", extents, Data::Gaussian { scale: 1.0 });
    }
    add("tiny", &[3, 64], Data::Gaussian { scale: 1e-30 });
    add("huge", &[3, 64], Data::Gaussian { scale: 1e30 });
    add("zeros", &[2, 64], Data::Values(vec![0.0, -0.0]));
    // Of four groups, the first and the third have an element that is not finite.
    let mut values: Vec<f64> = (0..128).map(|i| f64::from(i) - 50.0).collect();
    (values[5], values[70]) = (f64::NAN, f64::INFINITY);
    add("not finite", &[3, 128], Data::Values(values.clone()));
    for (extents, data) in [
        (&[32][..], Data::Gaussian { scale: 1.0 }),
        (&[2, 3, 576], Data::Gaussian { scale: 1e30 }),
        (&[70, 4096], Data::Gaussian { scale: 1.0 }),
        (&[3, 128], Data::Values(values)),
    ] {
        let label = format!("bf16, {extents:?}, {}", cases.len());
        cases.push(Case::new(label, QuantizeQ8, vec![Input::of(DType::BF16, extents, data)]));
    }
    cases
}

/// Normal activations `[..., k]` as quantized rows.
pub(crate) fn quantized_input(extents: &[usize]) -> Input {
    let x = Input::gaussian(DType::F32, extents);
    let info = infer_quantized("quantize_q8", "x", &TensorInfo::new(DType::F32, x.shape));
    let shape = info.map_or(x.shape, |info| info.shape);
    let values = x.values(extents.iter().sum::<usize>() as u64);
    Input::of(DType::U8, shape.axes(), Data::Values(quantized_bytes(&values, x.shape.last())))
}
