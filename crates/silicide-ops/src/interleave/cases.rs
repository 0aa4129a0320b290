//! Cases of `interleave`: every format that can be, one block and several.

use super::{Interleave, Parts, TOGETHER};
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for format in Format::ALL.into_iter().filter(|format| Parts::of(*format).is_some()) {
        for (groups, blocks) in [(1, 1), (3, 5)] {
            let extents = [groups * TOGETHER, blocks * format.block_bytes()];
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            let label = format!("{} columns of {blocks} blocks of {format}", extents[0]);
            cases.push(Case::new(label, Interleave { format }, vec![x]));
        }
    }
    cases
}
