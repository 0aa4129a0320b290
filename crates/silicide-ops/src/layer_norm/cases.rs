//! Calls of `layer_norm` to try.

use super::LayerNorm;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

const PLAIN: LayerNorm = LayerNorm { eps: 1e-5, weighted: false, biased: false };
const AFFINE: LayerNorm = LayerNorm { eps: 1e-5, weighted: true, biased: true };

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = common("plain, ", PLAIN);
    for (rows, k) in [(7, 1), (65, 4), (7, 32), (1, 576), (7, 2048), (1, 4097), (7, 8191)] {
        let affine = || Input::gaussian(F32, &[k]);
        let inputs = vec![Input::gaussian(F32, &[rows, k]), affine(), affine()];
        cases.push(Case::new(format!("{rows} x {k}"), AFFINE, inputs));
    }
    cases.push(Case::new("no weight, no bias", PLAIN, vec![Input::gaussian(F32, &[5, 2, 577])]));
    let vector = || Input::gaussian(F32, &[65]);
    let weighted = LayerNorm { weighted: true, ..PLAIN };
    cases.push(Case::new("weight only", weighted, vec![Input::gaussian(F32, &[7, 65]), vector()]));
    let biased = LayerNorm { biased: true, ..PLAIN };
    cases.push(Case::new("bias only", biased, vec![Input::gaussian(F32, &[7, 65]), vector()]));
    for dtype in [F16, BF16] {
        let inputs = vec![
            Input::gaussian(dtype, &[3, 577]),
            Input::gaussian(dtype, &[577]),
            Input::gaussian(dtype, &[577]),
        ];
        cases.push(Case::new(format!("{dtype}"), AFFINE, inputs));
    }
    // Weight and bias need not be of the same type.
    let mixed =
        vec![Input::gaussian(F16, &[3, 70]), Input::gaussian(F32, &[70]), Input::gaussian(F16, &[70])];
    cases.push(Case::new("f16, f32 weight, f16 bias", AFFINE, mixed));
    let offset = Input::of(F32, &[7, 576], Data::Uniform { low: 9_999.0, high: 10_001.0 });
    cases.push(Case::new("large common offset", PLAIN, vec![offset]));
    cases
}
