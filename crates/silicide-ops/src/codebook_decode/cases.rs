//! Calls of `codebook_decode`: the formats of the encoder, codes past the last level.

use super::CodebookDecode;
use crate::case::{Case, Data, Input};
use crate::codebook_encode::cases::{levels, shapes};
use silicide_quant::DType::{F32, U8};

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (codebook, [rows, n], count) in shapes() {
        let codes = Data::Indices { below: 256 };
        let inputs = vec![
            Input::of(U8, &[rows, codebook.code_bytes(n)], codes),
            Input::of(F32, &[rows, n / codebook.block], Data::Uniform { low: 0.0, high: 9.0 }),
            levels(count),
        ];
        cases.push(Case::new(
            format!("{rows} x {n}, {count} levels, {codebook:?}"),
            CodebookDecode { codebook },
            inputs,
        ));
    }
    cases
}
