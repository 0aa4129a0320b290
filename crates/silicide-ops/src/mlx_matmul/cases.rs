//! Cases of `mlx_matmul`: every mode, number of bits, group and type of scales, for one row, few and many.

use super::MlxMatmul;
use crate::case::{Case, Input};
use crate::mlx::cases::{inputs, some};
use silicide_quant::{DType, MlxFormat};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |format: MlxFormat, m: &[usize], n: usize, groups: usize| {
        let k = groups * format.group();
        let mut all = vec![Input::gaussian(DType::F32, &[m, &[k]].concat())];
        all.extend(inputs(format, n, k));
        Case::new(
            format!("{m:?} rows by {n} columns of {groups} groups of {format}"),
            MlxMatmul { format },
            all,
        )
    };
    let formats = some();
    let mut cases = Vec::new();
    for &format in &formats {
        cases.push(case(format, &[1], 37, 5));
        cases.push(case(format, &[11], 33, 2));
        cases.push(case(format, &[20], 49, 3));
    }
    if let [first, .., last] = formats[..] {
        cases.push(case(first, &[], 5, 1));
        cases.push(case(first, &[2, 3], 67, 17));
        cases.push(case(last, &[130], 131, 9));
    }
    cases
}
