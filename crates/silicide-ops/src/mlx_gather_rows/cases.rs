//! Cases of `mlx_gather_rows`: every mode, number of bits, group and type of scales; indices out of range.

use super::MlxGatherRows;
use crate::case::{Case, Data, Input};
use crate::mlx::cases::{inputs, some};
use silicide_quant::{DType, MlxFormat};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let case = |format: MlxFormat, groups: usize, (kind, indices): (DType, Data), to: DType| {
        let label = format!("rows of {groups} groups of {format} to {to} by {kind}");
        let mut inputs = inputs(format, 31, groups * format.group());
        inputs.push(Input::of(kind, &[7], indices));
        Case::new(label, MlxGatherRows { format, to }, inputs)
    };
    let outside = || Data::Values(vec![0.0, -1.0, 30.0, 31.0, -2_147_483_648.0, 2_147_483_647.0, 5.0]);
    let formats = some();
    let mut cases: Vec<Case> =
        formats.iter().map(|&format| case(format, 3, (DType::I32, outside()), DType::F32)).collect();
    for (format, to) in formats.into_iter().zip([DType::F16, DType::BF16, DType::F32]) {
        cases.push(case(format, 21, (DType::U32, Data::Indices { below: 33 }), to));
    }
    cases
}
