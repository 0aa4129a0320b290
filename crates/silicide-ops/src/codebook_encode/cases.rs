//! Calls of `codebook_encode`: every way to keep codes, sums and means, rows of one and of several blocks, a row of zeros.

use super::{Codebook, CodebookEncode};
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The formats and shapes to try: of [`codebook_decode`](crate::codebook_decode) too.
pub(crate) fn shapes() -> [(Codebook, [usize; 2], usize); 6] {
    let of = |block: usize, mean, factor, nibbles| Codebook { block, mean, factor, nibbles };
    [
        (of(256, false, 16.0, true), [5, 256], 16),
        (of(256, false, 16.0, false), [3, 256], 32),
        (of(256, true, 1.0, false), [4, 512], 256),
        (of(128, false, 11.3, true), [2, 128], 8),
        (of(1, false, 1.0, false), [3, 7], 2),
        (of(70, true, 2.0, false), [2, 210], 64),
    ]
}

/// Ascending levels.
pub(crate) fn levels(count: usize) -> Input {
    let level = |i: usize| 3.0 * ((2 * i + 1) as f64 / count as f64 - 1.0);
    Input::of(F32, &[count], Data::Values((0..count).map(level).collect()))
}

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (codebook, [rows, n], count) in shapes() {
        let mut random = crate::case::Random::new(n as u64);
        // The last row is zero.
        let mut value = |i: usize| if i / n + 1 == rows { 0.0 } else { 5.0 * random.gaussian() };
        let x = Data::Values((0..rows * n).map(&mut value).collect());
        let inputs = vec![Input::of(F32, &[rows, n], x), levels(count)];
        cases.push(Case::new(
            format!("{rows} x {n}, {count} levels, {codebook:?}"),
            CodebookEncode { codebook },
            inputs,
        ));
    }
    cases
}
