//! Inputs that are the planes of a weight.

use crate::case::{Data, Input};
use crate::interleave::cases::{interleaved_input, interleaved_planes};
use crate::interleave::{InterleavedGroup, TOGETHER};
use crate::mlx;
use silicide_quant::{DType, Encoding, Format, MlxFormat, RowEncoding};

/// The planes of a weight of `rows` rows of `k` elements, of any bits where it is quantized.
pub(crate) fn planes(encoding: Encoding, [rows, k]: [usize; 2]) -> Vec<Input> {
    match encoding {
        Encoding::Planes(format) => mlx::cases::inputs(format, rows, k),
        Encoding::Interleaved { of: RowEncoding::Planes(format), .. } => {
            interleaved_planes(format, [rows, k])
        }
        Encoding::Interleaved { of, .. } => vec![interleaved_input(of, &[rows, k])],
        Encoding::Block(format) => vec![Input::of(format.into(), &[rows, k], Data::Blocks)],
        other => {
            let dtype = other.dtype().into_iter();
            dtype.map(|dtype| Input::gaussian(dtype, &[rows, k])).collect()
        }
    }
}

/// Every encoding of interleaved rows; of those in planes, some that together have every number of bits, group and type of scales.
pub(crate) fn interleaved() -> impl Iterator<Item = Encoding> {
    let elements = [DType::F32, DType::F16, DType::BF16].map(RowEncoding::Element);
    let is_interleaved = |of: &RowEncoding| InterleavedGroup::of(*of, 0).is_some();
    let planes = MlxFormat::all().into_iter().map(RowEncoding::Planes).filter(is_interleaved).step_by(4);
    let all = elements.into_iter().chain(Format::ALL.map(RowEncoding::Block)).filter(is_interleaved);
    all.chain(planes.collect::<Vec<_>>()).map(|of| Encoding::Interleaved { of, rows: TOGETHER })
}
