//! Cases of `dequantize`: every format, with random bytes under sane scales, and the other output types once.

use super::Dequantize;
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |format: Format, rows: usize, blocks: usize, to: DType| {
        let x = Input::of(DType::Block(format), &[rows, blocks * format.block_len()], Data::Blocks);
        Case::new(format!("{format} to {to}, {rows} x {blocks} blocks"), Dequantize { to }, vec![x])
    };
    let mut cases: Vec<Case> = Format::ALL.into_iter().map(|format| case(format, 3, 7, DType::F32)).collect();
    cases.push(case(Format::Q4_0, 1, 1, DType::F16));
    cases.push(case(Format::Q4K, 5, 3, DType::BF16));
    cases.push(case(Format::Q8_0, 700, 3, DType::F32));
    cases
}
