//! Calls of `cumsum` to try. The number of rows never changes a row's bits.

use super::Cumsum;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: String, input| cases.push(Case::new(label, Cumsum, vec![input]));
    for (rows, k) in [(7, 1), (65, 4), (1, 32), (7, 576), (1, 2048), (7, 4097), (1, 8191)] {
        add(format!("{rows} x {k}"), Input::gaussian(F32, &[rows, k]));
    }
    add("a vector".to_owned(), Input::gaussian(F32, &[37]));
    for dtype in [F16, BF16] {
        add(format!("{dtype}"), Input::gaussian(dtype, &[2, 3, 577]));
    }
    for (label, scale) in [("large values", 1e4), ("tiny values", 1e-20), ("zeros", 0.0)] {
        add(label.to_owned(), Input::of(F32, &[7, 576], Data::Gaussian { scale }));
    }
    let whole = Data::Indices { below: 9 };
    add("whole numbers".to_owned(), Input::of(F32, &[3, 2049], whole));
    let mut special: Vec<f64> = (0..4 * 33).map(|i| f64::from(i % 7)).collect();
    special[40] = f64::NAN;
    special[70] = f64::INFINITY;
    special[110] = f64::NEG_INFINITY;
    let special = Data::Values(special);
    add("not a number and infinities".to_owned(), Input::of(F32, &[4, 33], special));
    add("one long row".to_owned(), Input::gaussian(F32, &[1, 200_003]));
    add("many short rows".to_owned(), Input::gaussian(F32, &[70_000, 3]));
    cases
}
