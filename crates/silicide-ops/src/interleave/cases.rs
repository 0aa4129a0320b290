//! Cases of `interleave`: every encoding that can be, one element or block and several.

use super::{Interleave, InterleavedGroup, TOGETHER, plain_dtype};
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format, RowEncoding};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let mut cases = Vec::new();
    for of in elements.into_iter().chain(Format::ALL.map(RowEncoding::Block)) {
        let Some(group) = InterleavedGroup::of(of) else { continue };
        for (sets, count) in [(1, 1), (3, 5)] {
            let extents = [sets * TOGETHER, count * group.bytes()];
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            let label = format!("{} rows of {count} groups of {of}", extents[0]);
            cases.push(Case::new(label, Interleave { of }, vec![x]));
        }
    }
    cases
}

/// Random weights, `[..., n, k]`, interleaved.
pub(crate) fn interleaved_input(of: impl Into<RowEncoding>, extents: &[usize]) -> Input {
    let of = of.into();
    let data = if let RowEncoding::Block(_) = of { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    let plain = Input::of(plain_dtype(of).unwrap_or(DType::F32), extents, data);
    let plain = plain.bytes(extents.iter().sum::<usize>() as u64);
    let (mut bytes, mut extents) = (vec![0.0; plain.len()], extents.to_vec());
    if let (Some(group), Some(last)) = (InterleavedGroup::of(of), extents.last_mut()) {
        *last = *last / of.group_len() * group.bytes();
        let row_bytes = *last;
        for (i, byte) in plain.iter().enumerate() {
            let (set, within) = (i / (TOGETHER * row_bytes), i % (TOGETHER * row_bytes));
            let (row, index, at) =
                (within / row_bytes, within % row_bytes / group.bytes(), within % group.bytes());
            let to = set * TOGETHER * row_bytes + index * TOGETHER * group.bytes() + group.place(row, at);
            bytes[to] = f64::from(*byte);
        }
    }
    Input::of(DType::U8, &extents, Data::Values(bytes))
}
