//! Weights on GPUs: the parts that read them, which call the weight `b`, and their windows.

use crate::mlx::{
    self,
    gpu::{B, WeightNames},
};
use crate::needs::TypedNeeds;
use crate::wgsl;
use silicide_core::kernel::{Arg, Decline};
use silicide_hal::{Access, Count, Needs, Part, Snippet, WgslKernel};
use silicide_quant::{DType, Encoding};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Refuses weights that GPUs do not read.
pub(crate) fn check(encoding: Encoding) -> Result<(), Decline> {
    match encoding {
        Encoding::Interleaved { .. } => Err(Decline("weights are interleaved for the CPU")),
        _ => Ok(()),
    }
}

/// The type of a weight in one plane. Planes of words have none.
fn dtype(encoding: Encoding) -> DType {
    encoding.dtype().unwrap_or(DType::U32)
}

/// Texts that read each plane.
pub(crate) fn snippets(encoding: Encoding) -> Option<SmallVec<[&'static Snippet; 3]>> {
    match encoding {
        Encoding::Planes(format) => Some(mlx::gpu::snippets(format)),
        _ => Some(smallvec![wgsl::load(encoding.dtype()?)?]),
    }
}

/// Parts that define `load_b`, `eight_b`, `sixteen_b` and `SPREAD_b`, with planes bound from `first` on.
pub(crate) fn parts(encoding: Encoding, first: u32) -> Option<SmallVec<[Part; 3]>> {
    match encoding {
        Encoding::Planes(format) => Some(mlx::gpu::parts(format, first)),
        _ => Some(smallvec![Part::bound(wgsl::load(encoding.dtype()?)?, "b", first)]),
    }
}

/// Returns the alignment in bytes that weights need where the texts read codes apart from scales; `None` if they can't.
pub(crate) fn codes_alignment(encoding: Encoding) -> Option<u32> {
    match encoding {
        Encoding::Planes(format) => mlx::gpu::codes_alignment(format),
        Encoding::Interleaved { .. } => None,
        _ => wgsl::codes_alignment(encoding.dtype()?),
    }
}

/// Returns the alignment in bytes that weights need where the texts read sixteen elements in a row at once; `None` if they can't.
pub(crate) fn runs_alignment(encoding: Encoding) -> Option<u32> {
    let format = encoding.dtype()?.format()?;
    if format.wgsl_has_runs() { format.wgsl_codes_alignment() } else { None }
}

/// The kernel with what the texts of the weight `b` leave open: constants, or a table.
pub(crate) fn finish(kernel: WgslKernel, encoding: Encoding) -> WgslKernel {
    finish_named(kernel, encoding, &B)
}

/// [`finish`] for a weight of another name.
pub(crate) fn finish_named(kernel: WgslKernel, encoding: Encoding, names: &WeightNames) -> WgslKernel {
    match encoding {
        Encoding::Planes(format) => mlx::gpu::with_constants(kernel, format, names),
        _ => wgsl::with_table(kernel, dtype(encoding), names.planes[0]),
    }
}

/// Whether reading the weight takes a table.
pub(crate) fn has_table(encoding: Encoding) -> bool {
    wgsl::has_table(dtype(encoding))
}

/// Arguments, and the table that reading the weight takes, if it does.
pub(crate) fn bind(args: &[Arg], encoding: Encoding) -> SmallVec<[Arg; 6]> {
    wgsl::bind(args, dtype(encoding))
}

/// Bytes of rows of `k` elements, in each plane.
pub(crate) fn row_bytes(encoding: Encoding, k: usize) -> SmallVec<[usize; 3]> {
    match encoding {
        Encoding::Planes(format) => mlx::row_bytes(format, k),
        _ => smallvec![k / dtype(encoding).block_len() * dtype(encoding).block_bytes()],
    }
}

/// Windows of rows of `k` elements, in planes that are the slots from `first` on.
pub(crate) fn windows(encoding: Encoding, k: usize, rows: Range<usize>, first: u8) -> SmallVec<[Arg; 6]> {
    let planes = row_bytes(encoding, k).into_iter().zip(first..);
    planes.map(|(bytes, slot)| Arg::slot(slot).window(rows.start * bytes, rows.len() * bytes)).collect()
}

/// Bytes that a row takes of the largest window: no less than its elements, which are counted in 32 bits.
pub(crate) fn room(encoding: Encoding, k: usize) -> usize {
    row_bytes(encoding, k).into_iter().fold(k, usize::max)
}

/// Adds the planes of `elements` to the needs of a program; `None` where they end inside a group.
pub(crate) fn read_planes(needs: Needs, encoding: Encoding, elements: Count) -> Option<Needs> {
    match encoding {
        Encoding::Planes(format) => mlx::gpu::read_planes(needs, format, elements),
        _ => needs.elements(Access::Read, encoding.dtype()?, elements),
    }
}

/// Adds the table that reading the weight takes, if it does; it is bound last.
pub(crate) fn read_table(needs: Needs, encoding: Encoding) -> Needs {
    needs.table(dtype(encoding))
}
