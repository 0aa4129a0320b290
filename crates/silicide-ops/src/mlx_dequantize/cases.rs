//! Cases of `mlx_dequantize`: every format, and the other output types once.

use super::MlxDequantize;
use crate::case::Case;
use crate::mlx::cases::inputs;
use silicide_quant::{DType, MlxFormat};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |format: MlxFormat, rows: usize, to: DType| {
        let (label, k) = (format!("{rows} rows of {format} to {to}"), 3 * format.group());
        Case::new(label, MlxDequantize { format, to }, inputs(format, rows, k))
    };
    let formats = MlxFormat::all();
    let mut cases: Vec<Case> = formats.iter().map(|&format| case(format, 3, DType::F32)).collect();
    for (format, to) in formats.into_iter().zip([DType::F16, DType::BF16]) {
        cases.push(case(format, 600, to));
    }
    cases
}
