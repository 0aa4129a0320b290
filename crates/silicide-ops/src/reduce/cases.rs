//! Calls of `reduce` to try. The number of rows never changes a row's bits.

use super::{Reduce, Reduction};
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for reduction in [Reduction::Sum, Reduction::Max] {
        let mut add = |label: String, input| {
            cases.push(Case::new(format!("{reduction:?}, {label}"), Reduce { reduction }, vec![input]));
        };
        for (rows, k) in [(7, 1), (65, 4), (1, 32), (7, 576), (1, 2048), (7, 4097), (65, 8191)] {
            add(format!("{rows} x {k}"), Input::gaussian(F32, &[rows, k]));
        }
        add("a vector".to_owned(), Input::gaussian(F32, &[37]));
        for dtype in [F16, BF16] {
            add(format!("{dtype}"), Input::gaussian(dtype, &[2, 3, 577]));
        }
        for (label, scale) in [("large values", 1e4), ("tiny values", 1e-20), ("zeros", 0.0)] {
            add(label.to_owned(), Input::of(F32, &[7, 576], Data::Gaussian { scale }));
        }
        let below = Data::Uniform { low: -2.0, high: -1.0 };
        add("negative values".to_owned(), Input::of(F32, &[7, 65], below));
        let mut special: Vec<f64> = (0..5 * 33).map(|i| f64::from(i % 7)).collect();
        special[40] = f64::NAN;
        special[70] = f64::INFINITY;
        special[100] = f64::NEG_INFINITY;
        special[132..].fill(f64::NEG_INFINITY);
        let special = Data::Values(special);
        add("not a number and infinities".to_owned(), Input::of(F32, &[5, 33], special));
        add("one long row".to_owned(), Input::gaussian(F32, &[1, 200_003]));
        add("many short rows".to_owned(), Input::gaussian(F32, &[70_000, 3]));
    }
    cases
}
