//! Cases of `interleave`: every encoding that can be, one element or block and several, and rows after the last set.

use super::{Interleave, InterleavedGroup, TOGETHER, places, plain_dtype};
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format, RowEncoding, Shape};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let mut cases = Vec::new();
    for of in elements.into_iter().chain(Format::ALL.map(RowEncoding::Block)) {
        let Some(group) = InterleavedGroup::of(of) else { continue };
        let mut add = |axes: &[usize], count: usize| {
            let extents = [axes, &[count * group.bytes()]].concat();
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            let label = format!("{axes:?} rows of {count} groups of {of}");
            cases.push(Case::new(label, Interleave { of }, vec![x]));
        };
        add(&[TOGETHER], 1);
        add(&[3 * TOGETHER], 5);
        if let RowEncoding::Element(_) = of {
            // Whole cache lines and a rest, and more than a tile.
            add(&[2 * TOGETHER], 77);
            add(&[TOGETHER + 1], 3);
            add(&[3, 5 * TOGETHER - 1], 1500);
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
    }
    if let Ok(shape) = Shape::new(&extents) {
        for (byte, place) in plain.iter().zip(places(of, &shape)) {
            bytes[place] = f64::from(*byte);
        }
    }
    Input::of(DType::U8, &extents, Data::Values(bytes))
}
