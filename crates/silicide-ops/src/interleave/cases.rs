//! Cases of `interleave`: every format that can be, one block and several.

use super::{Interleave, InterleavedBlock, TOGETHER};
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| InterleavedBlock::of(*format).is_some()) {
        for (groups, blocks) in [(1, 1), (3, 5)] {
            let extents = [groups * TOGETHER, blocks * format.block_bytes()];
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            let label = format!("{} columns of {blocks} blocks of {format}", extents[0]);
            cases.push(Case::new(label, Interleave { format }, vec![x]));
        }
    }
    cases
}

/// Random weights of a format, `[..., n, k]`, interleaved.
pub(crate) fn interleaved_input(format: Format, extents: &[usize]) -> Input {
    let plain =
        Input::of(DType::Block(format), extents, Data::Blocks).bytes(extents.iter().sum::<usize>() as u64);
    let (mut bytes, mut extents) = (vec![0.0; plain.len()], extents.to_vec());
    if let (Some(parts), Some(last)) = (InterleavedBlock::of(format), extents.last_mut()) {
        *last = *last / format.block_len() * parts.bytes();
        let column = *last;
        for (i, byte) in plain.iter().enumerate() {
            let (group, within) = (i / (TOGETHER * column), i % (TOGETHER * column));
            let (lane, block, at) =
                (within / column, within % column / parts.bytes(), within % parts.bytes());
            let to = group * TOGETHER * column + block * TOGETHER * parts.bytes() + parts.place(lane, at);
            bytes[to] = f64::from(*byte);
        }
    }
    Input::of(DType::U8, &extents, Data::Values(bytes))
}
