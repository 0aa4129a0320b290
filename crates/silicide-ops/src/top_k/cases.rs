//! Calls of `top_k`: one to a thousand of rows of every length, ties, special values, every type.

use super::TopK;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: &str, k: usize, input: Input| {
        let label = format!("{label}, {k} of {}{}", input.dtype, input.shape);
        cases.push(Case::new(label, TopK { k }, vec![input]));
    };
    for (rows, columns, k) in [(1, 1, 1), (7, 5, 5), (3, 128, 8), (65, 33, 4), (2, 1030, 1024), (1, 5000, 40)]
    {
        add("any", k, Input::gaussian(F32, &[rows, columns]));
    }
    add("a vector", 3, Input::gaussian(F32, &[37]));
    add("a vocabulary", 50, Input::gaussian(F32, &[1, 50_003]));
    for dtype in [F16, BF16] {
        add("ties", 17, Input::of(dtype, &[2, 3, 577], Data::Indices { below: 5 }));
    }
    add("ties", 300, Input::of(F32, &[3, 4001], Data::Indices { below: 9 }));
    add("all alike", 100, Input::of(F32, &[2, 700], Data::Values(vec![0.25])));
    add("zeros of both signs", 9, Input::of(F32, &[5, 33], Data::Values(vec![-0.0, 0.0])));
    let rising: Vec<f64> = (0..3000).map(f64::from).collect();
    add("rising", 64, Input::of(F32, &[2, 3000], Data::Values(rising)));
    add("negative", 11, Input::of(F32, &[4, 300], Data::Uniform { low: -2.0, high: -1.0 }));
    let mut special: Vec<f64> = (0..5 * 33).map(|i| f64::from(i % 7)).collect();
    special[40] = f64::INFINITY;
    special[45] = -f64::NAN;
    special[50] = f64::NAN;
    special[70] = f64::INFINITY;
    special[100] = f64::NEG_INFINITY;
    special[132..].fill(f64::NEG_INFINITY);
    add("not a number and infinities", 12, Input::of(F32, &[5, 33], Data::Values(special)));
    cases
}
