//! Common code of the ops over weights: checks of planes, values for references, and encodings as parameter words.
//!
//! | file | what |
//! |---|---|
//! | `cpu` | rows of any encoding, decoded to f32 in a tile |
//! | `gpu` | parts of WGSL kernels that read a weight, and its windows |
//! | `cases` | inputs that are the planes of a weight |

pub(crate) mod cases;
mod cpu;
pub(crate) mod gpu;

pub(crate) use cpu::{Rows, read_rows};

use crate::interleave::{InterleavedGroup, TOGETHER, interleaved_values};
use crate::mlx;
use silicide_core::kernel::{Host, TensorInfo, Tolerance};
use silicide_core::{Error, Result};
use silicide_gemm::q8;
use silicide_quant::{DType, Encoding, MAX_PLANES, Plane, RowEncoding, Shape};
use smallvec::SmallVec;

/// Bits of a parameter word that are the number of a type or a format; the bits above are the kind of encoding.
const CODE_BITS: u32 = 16;

/// Returns the shape of the weight whose planes are given. An error names the plane; `name` is that of a weight in one plane.
pub(crate) fn check(
    op: &'static str,
    name: &'static str,
    encoding: Encoding,
    planes: &[TensorInfo],
) -> Result<Shape> {
    if code(encoding).is_none() {
        let what = format!("{name} is {encoding}, which no kernel reads");
        return Err(Error::BadParameter { op, what });
    }
    let name = if encoding.planes() == 1 { name } else { "packed" };
    let planes: SmallVec<[Plane; MAX_PLANES]> =
        planes.iter().map(|plane| Plane { dtype: plane.dtype, shape: plane.shape }).collect();
    encoding.shape(&planes).map_err(|error| match Error::bad_plane(op, error) {
        Error::Shape { op, slot: "weight", expected, got } => Error::Shape { op, slot: name, expected, got },
        Error::DTypeMismatch { op, slot: "weight", expected, got } => {
            Error::DTypeMismatch { op, slot: name, expected, got }
        }
        other => other,
    })
}

/// Returns the values of a weight, for references.
pub(crate) fn values(encoding: Encoding, planes: &[Host]) -> Vec<f64> {
    match (encoding, planes) {
        (Encoding::Planes(format), planes) => mlx::values(format, planes),
        (Encoding::Interleaved { of, .. }, planes) => interleaved_values(of, planes),
        (_, [plane]) => plane.values.clone(),
        _ => Vec::new(),
    }
}

/// Whether there is a product in integers with weights of this encoding: kernels may quantize its activations to 8 bits.
pub(crate) fn has_integer_product(encoding: Encoding) -> bool {
    match encoding.of() {
        RowEncoding::Block(format) => q8::supports(format),
        RowEncoding::Planes(format) => format.has_biases(),
        _ => false,
    }
}

/// Whether kernels may round activations and these weights to f16. Weights of f32 are multiplied as they are.
pub(crate) fn may_round(encoding: Encoding) -> bool {
    encoding != Encoding::Element(DType::F32)
}

/// The tolerance of products of factors that are rounded to f16: errors of at most 2^-11 of each factor.
pub(crate) const ROUNDED: Tolerance = Tolerance { nmse: 1e-6, max: 5e-3 };

/// Returns the tolerance of results in f32 that are stored as `dtype`.
pub(crate) fn stored_as(dtype: DType, sums: Tolerance) -> Tolerance {
    if dtype == DType::F32 {
        return sums;
    }
    let rounding = Tolerance::rounding(dtype);
    Tolerance { nmse: sums.nmse + rounding.nmse, max: sums.max + rounding.max }
}

/// Bytes of a row of `k` elements, in the first plane.
pub(crate) fn row_bytes(encoding: Encoding, k: usize) -> usize {
    match encoding.of() {
        RowEncoding::Planes(format) => k / 8 * format.bits(),
        RowEncoding::Block(format) => k / format.block_len() * format.block_bytes(),
        RowEncoding::Element(dtype) => k * dtype.size(),
        _ => k,
    }
}

/// The encoding as a parameter word; `None` where no kernel reads it.
pub(crate) fn code(encoding: Encoding) -> Option<u32> {
    match encoding {
        Encoding::Element(dtype) if !dtype.is_compressed() => Some(dtype.code()),
        Encoding::Block(format) => Some(DType::Block(format).code()),
        Encoding::Planes(format) => Some(1 << CODE_BITS | mlx::code(format)),
        Encoding::Interleaved { of, rows: TOGETHER } => {
            // The kinds of plain encodings are 0 and 1, so those of interleaved ones are 2 and 3.
            InterleavedGroup::of(of, 0).and_then(|_| code(of.into())).map(|code| 2 << CODE_BITS | code)
        }
        _ => None,
    }
}

/// The encoding of a parameter word.
#[inline(always)]
pub(crate) fn from_code(code: u32) -> Option<Encoding> {
    let number = code & ((1 << CODE_BITS) - 1);
    match code >> CODE_BITS {
        0 => DType::from_code(number).map(Encoding::from),
        1 => mlx::from_code(number).map(Encoding::Planes),
        kind @ (2 | 3) => {
            let of = from_code((kind - 2) << CODE_BITS | number)?.of();
            InterleavedGroup::of(of, 0).map(|_| Encoding::Interleaved { of, rows: TOGETHER })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{Format, MlxFormat};

    #[test]
    fn codes_give_back_the_encoding() {
        let plain = DType::ALL.into_iter().map(Encoding::from);
        let blocks = Format::ALL.into_iter().map(Encoding::Block);
        let planes = MlxFormat::all().into_iter().map(Encoding::Planes);
        let interleaved = cases::interleaved();
        let mut codes = Vec::new();
        for encoding in plain.chain(blocks).chain(planes).chain(interleaved) {
            let code = code(encoding).unwrap();
            assert_eq!(from_code(code), Some(encoding));
            codes.push(code);
        }
        let count = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), count, "each has its own");
        let of = RowEncoding::Block(Format::Q8_0);
        assert_eq!(code(Encoding::Interleaved { of, rows: 8 }), None);
        assert_eq!(from_code(u32::MAX), None);
    }
}
