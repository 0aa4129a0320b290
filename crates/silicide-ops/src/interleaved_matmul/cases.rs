//! Cases of `interleaved_matmul`: every format that can be interleaved, for one row, few and many.

use super::InterleavedMatmul;
use crate::case::{Case, Input};
use crate::interleave::cases::interleaved_input;
use crate::interleave::{InterleavedBlock, TOGETHER};
use silicide_quant::{DType, Format};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |format: Format, m: &[usize], groups: usize, blocks: usize| {
        let (n, k) = (groups * TOGETHER, blocks * format.block_len());
        let inputs =
            vec![Input::gaussian(DType::F32, &[m, &[k]].concat()), interleaved_input(format, &[n, k])];
        let label = format!("{m:?} rows by {n} columns of {blocks} blocks of {format}");
        Case::new(label, InterleavedMatmul { format }, inputs)
    };
    let mut cases = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| InterleavedBlock::of(*format).is_some()) {
        let blocks = 544usize.div_ceil(format.block_len());
        cases.push(case(format, &[1], 3, blocks));
        cases.push(case(format, &[3], 2, blocks));
        cases.push(case(format, &[11], 1, blocks));
        cases.push(case(format, &[20], 3, blocks));
    }
    cases.push(case(Format::Q4_0, &[], 2, 1));
    cases.push(case(Format::Q4_0, &[2, 2], 5, 70));
    cases.push(case(Format::Q8_0, &[130], 9, 33));
    cases.push(case(Format::Q6K, &[70], 5, 9));
    // More than fits registers' sums.
    cases.push(case(Format::Q4_0, &[1], 1, 1030));
    cases
}
