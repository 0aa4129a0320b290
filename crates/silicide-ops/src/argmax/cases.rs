//! Calls of `argmax` to try.

use super::Argmax;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = common("", Argmax);
    let mut add = |label: &str, input| cases.push(Case::new(label, Argmax, vec![input]));
    for dtype in [F16, BF16] {
        // Few distinct values: full of ties.
        add(&format!("{dtype}, ties"), Input::of(dtype, &[2, 3, 577], Data::Indices { below: 5 }));
    }
    add("ties", Input::of(F32, &[7, 8191], Data::Indices { below: 9 }));
    add("ties in a long row", Input::of(F32, &[1, 200_003], Data::Indices { below: 1000 }));
    add("zeros of both signs", Input::of(F32, &[5, 33], Data::Values(vec![-0.0, 0.0])));
    let mut special: Vec<f64> = (0..33).map(f64::from).collect();
    special[7] = f64::INFINITY;
    special[12] = -f64::NAN;
    special[17] = f64::NAN;
    add("the first of two NaN", Input::of(F32, &[1, 33], Data::Values(special)));
    add("two long rows", Input::gaussian(F32, &[2, 49_153]));
    cases
}
