//! Calls of `l2_norm` to try. The number of rows never changes a row's bits.

use super::L2Norm;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let op = L2Norm { eps: 1e-12 };
    let mut cases = Vec::new();
    for (rows, k) in [(7, 1), (1, 4), (65, 32), (1, 576), (7, 2048), (1, 4097), (7, 8191)] {
        cases.push(Case::new(format!("{rows} x {k}"), op, vec![Input::gaussian(F32, &[rows, k])]));
    }
    for dtype in [F16, BF16] {
        cases.push(Case::new(format!("{dtype}"), op, vec![Input::gaussian(dtype, &[3, 577])]));
    }
    let small = Input::of(F32, &[7, 65], Data::Gaussian { scale: 1e-3 });
    cases.push(Case::new("norms under eps", L2Norm { eps: 0.5 }, vec![small]));
    for (label, scale) in [("large values", 1e4), ("tiny values", 1e-20), ("zeros", 0.0)] {
        cases.push(Case::new(label, op, vec![Input::of(F32, &[7, 576], Data::Gaussian { scale })]));
    }
    let mut special = vec![1.0; 3 * 33];
    special[40] = f64::NAN;
    special[70] = f64::INFINITY;
    cases.push(Case::new(
        "not a number and infinity stay in their rows",
        op,
        vec![Input::of(F32, &[3, 33], Data::Values(special))],
    ));
    cases.push(Case::new("one long row", op, vec![Input::gaussian(F32, &[1, 200_003])]));
    cases.push(Case::new("many short rows", op, vec![Input::gaussian(F32, &[70_000, 3])]));
    cases
}
