//! Cases of `dequantize`: every encoding, with random bytes under sane scales, and the other output types.

use super::Dequantize;
use crate::case::Case;
use crate::weight::cases::{interleaved, planes};
use silicide_quant::{DType, Encoding, Format, MlxFormat};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |encoding: Encoding, rows: usize, groups: usize, to: DType| {
        let inputs = planes(encoding, [rows, groups * encoding.group_len()]);
        let label = format!("{encoding} to {to}, {rows} x {groups} groups");
        Case::new(label, Dequantize { encoding, to }, inputs)
    };
    let blocks = Format::ALL.map(Encoding::Block);
    let mut cases: Vec<Case> = blocks.into_iter().map(|blocks| case(blocks, 3, 7, DType::F32)).collect();
    cases.push(case(Encoding::Block(Format::Q4_0), 1, 1, DType::F16));
    cases.push(case(Encoding::Block(Format::Q4K), 5, 3, DType::BF16));
    cases.push(case(Encoding::Block(Format::Q8_0), 700, 3, DType::F32));
    let formats = MlxFormat::all().into_iter().map(Encoding::Planes);
    cases.extend(formats.clone().map(|planes| case(planes, 3, 3, DType::F32)));
    cases.extend(formats.zip([DType::F16, DType::BF16]).map(|(planes, to)| case(planes, 600, 3, to)));
    cases.extend(interleaved().map(|encoding| case(encoding, 32, 3, DType::F32)));
    let tails = interleaved().filter(|encoding| encoding.takes_rows(1));
    cases.extend(tails.map(|encoding| case(encoding, 53, 300, DType::F32)));
    cases.extend(interleaved().step_by(5).map(|encoding| case(encoding, 160, 9, DType::F16)));
    cases
}
