//! Calls of `weighted_sum`: one row and many, rows shorter and longer than a chunk, special values.

use super::WeightedSum;
use crate::{Case, Data, Input};
use silicide_quant::DType::F32;

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: &str, axes: &[usize], data: Data| {
        let rows = axes.split_last().map_or(&[][..], |(_, rows)| rows);
        let inputs = vec![Input::of(F32, axes, data), Input::gaussian(F32, rows)];
        cases.push(Case::new(format!("{label}, {axes:?}"), WeightedSum, inputs));
    };
    let any = || Data::Gaussian { scale: 1.0 };
    for axes in [&[1, 1][..], &[8, 257], &[5, 4, 64], &[3, 1, 3], &[2, 3, 2, 1000], &[70, 8, 513]] {
        add("any", axes, any());
    }
    add("infinities", &[4, 2, 9], Data::Values(vec![1.0, f64::INFINITY, 2.0, 3.0, 5.0, f64::NAN, 4.0]));
    cases
}
