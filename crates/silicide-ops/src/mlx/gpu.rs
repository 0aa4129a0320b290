//! MLX weights on GPUs: the parts that read them, and their windows.

use crate::wgsl;
use silicide_core::kernel::Arg;
use silicide_hal::{Count, Needs, Part, Snippet, WgslKernel};
use silicide_quant::{MlxFormat, MlxMode};
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

static AFFINE: Snippet = decoder(MlxMode::Affine);
static MXFP4: Snippet = decoder(MlxMode::Mxfp4);
static MXFP8: Snippet = decoder(MlxMode::Mxfp8);
static NVFP4: Snippet = decoder(MlxMode::Nvfp4);

const fn decoder(mode: MlxMode) -> Snippet {
    Snippet { name: mode.name(), text: mode.wgsl() }
}

/// The decoder of a format's codes.
fn codes(format: MlxFormat) -> &'static Snippet {
    match format.mode() {
        MlxMode::Mxfp4 => &MXFP4,
        MlxMode::Mxfp8 => &MXFP8,
        MlxMode::Nvfp4 => &NVFP4,
        _ => &AFFINE,
    }
}

/// Parts that define `load_b`, `eight_b`, `sixteen_b` and `SPREAD_b`, with planes bound from `first` on.
pub(crate) fn parts(format: MlxFormat, first: u32) -> SmallVec<[Part; 3]> {
    let plane = |name, binding| Part::bound(plane(format), name, binding);
    let mut parts = smallvec![Part::bound(codes(format), "b", first), plane("b_scales", first + 1)];
    if format.has_biases() {
        parts.push(plane("b_biases", first + 2));
    }
    parts
}

/// How scales are read: as floats, or as bytes that the format makes sense of.
fn plane(format: MlxFormat) -> &'static Snippet {
    let dtype = format.scale_dtype();
    wgsl::load(dtype).unwrap_or(wgsl::load_bits(dtype))
}

/// The kernel with what the format's text leaves open.
pub(crate) fn with_constants(kernel: WgslKernel, format: MlxFormat) -> WgslKernel {
    kernel.constant("BITS_b", format.bits() as u32).constant("GROUP_b", format.group() as u32)
}

/// Adds the planes of `elements` to the needs of a program; `None` where they end inside a group.
pub(crate) fn read_planes(needs: Needs, format: MlxFormat, elements: Count) -> Option<Needs> {
    let (group, size) = (format.group() as u64, format.scale_dtype().size());
    if !elements.0.is_multiple_of(group) {
        return None;
    }
    let scales = Count(elements.0 / group) * size;
    let needs = needs.read(Count(elements.0 / 8) * format.bits(), size_of::<u32>()).read(scales, size);
    Some(if format.has_biases() { needs.read(scales, size) } else { needs })
}

/// Bytes of rows of `k` elements, in each plane.
pub(crate) fn row_bytes(format: MlxFormat, k: usize) -> SmallVec<[usize; 3]> {
    let scales = k / format.group() * format.scale_dtype().size();
    let mut bytes = smallvec![k / 8 * format.bits(), scales];
    if format.has_biases() {
        bytes.push(scales);
    }
    bytes
}

/// Windows of rows of `k` elements, in planes that are the slots from `first` on.
pub(crate) fn windows(format: MlxFormat, k: usize, rows: Range<usize>, first: u8) -> SmallVec<[Arg; 6]> {
    let planes = row_bytes(format, k).into_iter().zip(first..);
    planes.map(|(bytes, slot)| Arg::slot(slot).window(rows.start * bytes, rows.len() * bytes)).collect()
}

/// Bytes that a row takes of the largest window: no less than its elements, which are counted in 32 bits.
pub(crate) fn room(format: MlxFormat, k: usize) -> usize {
    // A plane of scales is never larger than that of codes.
    (k / 8 * format.bits()).max(k)
}
