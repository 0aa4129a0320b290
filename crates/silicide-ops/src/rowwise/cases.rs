//! Calls that row-wise ops of one input are tried with: odd sizes, each type, extreme values, long rows, many rows. The number
//! of rows never changes a row's bits.

use crate::{Case, Data, Input};
use silicide_core::kernel::Op;
use silicide_quant::DType::{BF16, F16, F32};

/// Returns the common cases of `op`, each label after `prefix`.
pub(crate) fn common(prefix: &str, op: impl Op + Copy) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: &str, input| cases.push(Case::new(format!("{prefix}{label}"), op, vec![input]));
    for (rows, k) in [(7, 1), (65, 4), (1, 32), (7, 576), (1, 2048), (7, 4097), (65, 8191)] {
        add(&format!("{rows} x {k}"), Input::gaussian(F32, &[rows, k]));
    }
    add("a vector", Input::gaussian(F32, &[37]));
    for dtype in [F16, BF16] {
        add(&format!("{dtype}"), Input::gaussian(dtype, &[2, 3, 577]));
    }
    for (label, scale) in [("large values", 1e4), ("tiny values", 1e-20), ("zeros", 0.0)] {
        add(label, Input::of(F32, &[7, 576], Data::Gaussian { scale }));
    }
    add("negative values", Input::of(F32, &[7, 65], Data::Uniform { low: -2.0, high: -1.0 }));
    let mut special: Vec<f64> = (0..5 * 33).map(|i| f64::from(i % 7)).collect();
    special[40] = f64::NAN;
    special[70] = f64::INFINITY;
    special[100] = f64::NEG_INFINITY;
    special[132..].fill(f64::NEG_INFINITY);
    add("not a number and infinities", Input::of(F32, &[5, 33], Data::Values(special)));
    add("one long row", Input::gaussian(F32, &[1, 200_003]));
    add("many short rows", Input::gaussian(F32, &[70_000, 3]));
    cases
}
