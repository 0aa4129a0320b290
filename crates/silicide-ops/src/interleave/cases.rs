//! Cases of `interleave`: every encoding that can be, one element or block and several, and rows after the last set.

use super::{CodeOrder, Interleave, InterleavedGroup, TOGETHER, map_words, places, plain_dtype};
use crate::case::{Case, Data, Input};
use crate::mlx;
use silicide_quant::{DType, Format, MlxFormat, RowEncoding, Shape};

/// Calls to try.
pub fn cases() -> Vec<Case> {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let mut cases = Vec::new();
    for of in elements.into_iter().chain(Format::ALL.map(RowEncoding::Block)) {
        let Some(group) = InterleavedGroup::of(of, 0) else { continue };
        let mut add = |axes: &[usize], count: usize| {
            let extents = [axes, &[count * group.bytes()]].concat();
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            let label = format!("{axes:?} rows of {count} groups of {of}");
            cases.push(Case::new(label, Interleave { of, plane: 0 }, vec![x]));
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
    for format in MlxFormat::all().into_iter().filter(|format| CodeOrder::of(*format).is_some()) {
        let of = RowEncoding::Planes(format);
        for (plane, axes, groups) in
            [(0, &[TOGETHER][..], 1), (1, &[2, 3 * TOGETHER], 5), (2, &[TOGETHER], 70)]
        {
            let bytes = mlx::row_bytes(format, groups * format.group());
            let extents = [axes, &[bytes[plane]]].concat();
            let x = Input::of(DType::U8, &extents, Data::Indices { below: 256 });
            cases.push(Case::new(format!("plane {plane} of {format}"), Interleave { of, plane }, vec![x]));
        }
    }
    cases
}

/// Random weights in one plane, `[..., n, k]`, interleaved.
pub(crate) fn interleaved_input(of: RowEncoding, extents: &[usize]) -> Input {
    let data = if let RowEncoding::Block(_) = of { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    let plain = Input::of(plain_dtype(of).unwrap_or(DType::F32), extents, data);
    let mut extents = extents.to_vec();
    if let (Some(group), Some(last)) = (InterleavedGroup::of(of, 0), extents.last_mut()) {
        *last = *last / of.group_len() * group.bytes();
    }
    interleaved_bytes(Interleave { of, plane: 0 }, &plain, &extents)
}

/// Random affine weights, `[n, k]`, with every plane interleaved.
pub(crate) fn interleaved_planes(format: MlxFormat, [n, k]: [usize; 2]) -> Vec<Input> {
    let (of, bytes) = (RowEncoding::Planes(format), mlx::row_bytes(format, k));
    let planes = mlx::cases::inputs(format, n, k).into_iter().zip(bytes).enumerate();
    let interleaved = |(plane, (input, bytes)): (usize, (Input, usize))| {
        interleaved_bytes(Interleave { of, plane }, &input, &[n, bytes])
    };
    planes.map(interleaved).collect()
}

/// The interleaved bytes, of shape `extents`, of a plane.
fn interleaved_bytes(op: Interleave, plain: &Input, extents: &[usize]) -> Input {
    let plain = plain.bytes(plain.shape.axes().iter().sum::<usize>() as u64);
    let plain = map_words(op, plain, CodeOrder::interleaved);
    let mut bytes = vec![0.0; plain.len()];
    if let Ok(shape) = Shape::new(extents) {
        for (byte, place) in plain.iter().zip(places(op, &shape)) {
            bytes[place] = f64::from(*byte);
        }
    }
    Input::of(DType::U8, extents, Data::Values(bytes))
}
