//! Calls of `rms_norm` to try.

use super::RmsNorm;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::{self, BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = common("no weight, ", RmsNorm::new(1e-5, false));
    for (rows, k) in [(7, 1), (1, 4), (65, 32), (7, 576), (1, 2048), (7, 4097), (1, 8191)] {
        let inputs = vec![Input::gaussian(F32, &[rows, k]), Input::gaussian(F32, &[k])];
        cases.push(Case::new(format!("{rows} x {k}"), RmsNorm::new(1e-6, true), inputs));
    }
    for (rows, k) in [(7, 1), (3, 576), (1, 8191)] {
        cases.push(residual(F32, F32, &[rows, k]));
    }
    cases.push(Case::new(
        "3 axes, residual, no weight",
        RmsNorm::with_residual(1e-6, false),
        vec![Input::gaussian(F32, &[2, 3, 65]), Input::gaussian(F32, &[2, 3, 65])],
    ));
    for dtype in [F16, BF16] {
        cases.push(residual(dtype, dtype, &[3, 577]));
        let inputs = vec![Input::gaussian(dtype, &[7, 2049]), Input::gaussian(F32, &[2049])];
        cases.push(Case::new(format!("{dtype}, f32 weight"), RmsNorm::new(1e-6, true), inputs));
    }
    for (label, scale) in [("large values", 1e4), ("tiny values", 1e-20), ("zeros", 0.0)] {
        let inputs = vec![
            Input::of(F32, &[7, 576], Data::Gaussian { scale }),
            Input::of(F32, &[576], Data::Uniform { low: 0.5, high: 1.5 }),
        ];
        cases.push(Case::new(label, RmsNorm::new(1e-6, true), inputs));
    }
    let long = vec![Input::gaussian(F32, &[1, 200_003]), Input::gaussian(F32, &[200_003])];
    cases.push(Case::new("one long row", RmsNorm::new(1e-6, true), long));
    cases.push(residual(F32, F32, &[2, 70_001]));
    cases.extend(quantized());
    cases
}

/// With quantized rows.
fn quantized() -> Vec<Case> {
    let mut cases = Vec::new();
    for extents in [&[32][..], &[3, 96], &[2, 3, 576], &[70, 4096]] {
        let (x, weight) =
            (Input::gaussian(F32, extents), Input::gaussian(F32, &extents[extents.len() - 1..]));
        for (op, inputs) in [
            (RmsNorm::new(1e-6, false), vec![x.clone()]),
            (RmsNorm::new(1e-6, true), vec![x.clone(), weight.clone()]),
            (RmsNorm::with_residual(1e-6, false), vec![x.clone(), x.clone()]),
            (RmsNorm::with_residual(1e-6, true), vec![x.clone(), x.clone(), weight.clone()]),
        ] {
            let label = format!("quantized, {extents:?}, residual {}, weight {}", op.residual, op.weighted);
            cases.push(Case::new(label, RmsNorm { quantized: true, ..op }, inputs));
        }
    }
    cases
}

fn residual(dtype: DType, weight: DType, extents: &[usize]) -> Case {
    let k = extents.last().copied().unwrap_or(1);
    let inputs =
        vec![Input::gaussian(dtype, extents), Input::gaussian(dtype, extents), Input::gaussian(weight, &[k])];
    Case::new(format!("{dtype}{extents:?}, residual"), RmsNorm::with_residual(1e-6, true), inputs)
}
