//! The needs of the programs of products on the CPU. Weights of one product are `[n, k]`, activations `[m, k]`, outputs
//! `[m, n]`, for each of a batch; activations of products in integers are quantized rows.
//!
//! A tile writes some rows and columns of the outputs of one batch: grids are exactly as large as tiles of the extents in the
//! parameters cover the outputs, so that no tile begins outside of them.

use crate::cpu::needs::in_tiles_of;
use crate::needs::bytes;
use crate::weight;
use silicide_core::kernel::{Decline, TensorInfo};
use silicide_gemm::q8::{GROUP, INTERLEAVE, MAX_KC, MAX_NC, MIN_OUTPUTS, NR, quantized_row_bytes};
use silicide_hal::{Count, LaunchShape, Needs};
use silicide_quant::{DType, Encoding, MlxMode, RowEncoding};

/// The alignment of quantized rows: that of their scales.
pub(crate) const ROW_ALIGN: usize = 4;

/// Declines quantized rows that begin between words.
pub(crate) fn check_alignment(rows: &TensorInfo) -> Result<(), Decline> {
    let is_aligned = rows.alignment as usize >= ROW_ALIGN;
    if is_aligned { Ok(()) } else { Err(Decline("needs quantized rows that are aligned to 4 bytes")) }
}

/// Bytes of `rows` quantized rows.
pub(crate) fn quantized(rows: Count, groups: u32) -> Count {
    rows * quantized_row_bytes(groups as usize)
}

/// Checks that the grid has tiles of `[rows, columns]` over `[m, n]`, for each of a batch. Returns the batch.
fn batch(launch: &LaunchShape<'_>, [m, n]: [Count; 2], [rows, columns]: [Count; 2]) -> Option<Count> {
    let [x, y, z] = launch.grid.map(Count::from);
    (x == n.div_ceil(columns)? && y == m.div_ceil(rows)?).then_some(z)
}

/// Rows of f32 times dense weights. Parameters: m, n, k, columns and rows of a tile, the code of the weights' type, and how many of their rows
/// are interleaved: sixteen, or one.
pub(crate) fn dense(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [m, n, k, columns, rows, _, interleaved] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let dtype = *DType::ALL.get(launch.param(5) as usize)?;
    let is_dense = matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    let sets = interleaved.0;
    // Tiles begin between sets.
    let is_whole = sets == 1 || (sets == INTERLEAVE as u64 && columns.0.is_multiple_of(sets));
    let batch = batch(launch, [m, n], [rows, columns])?;
    let (size, needs) = (dtype.size(), Needs::new().read(batch * m * k * 4u32, 4));
    let needs = needs.read(batch * n * k * size, size).write(batch * m * n * 4u32, 4);
    (is_dense && is_whole && k.0 > 0).then_some(needs)
}

/// Rows of f32 times weights that are decoded. Parameters: m, n, k, columns and rows of a tile, the code of the encoding.
pub(crate) fn decoded(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [m, n, k, columns, rows] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let batch = batch(launch, [m, n], [rows, columns])?;
    let needs = Needs::new().read(batch * m * k * 4u32, 4);
    let needs = weight::read_rows(needs, weight::from_code(launch.param(5))?, [batch * n, k])?;
    Some(needs.write(batch * m * n * 4u32, 4))
}

/// The common needs of products in integers. Parameters: m, n, groups, columns and rows of a tile, columns and groups that are
/// unpacked at a time, the format. Blocks have `block` elements.
fn integers(launch: &LaunchShape<'_>, block: usize) -> Option<(Count, [Count; 3])> {
    let [m, n, groups, columns, rows, group, chunk] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let batch = batch(launch, [m, n], [rows, columns])?;
    let whole = |count: Count, of: usize| count.0 != 0 && count.0.is_multiple_of(of as u64);
    let is_unpacked = whole(group, NR) && group <= Count::from(MAX_NC) && chunk <= Count::from(MAX_KC);
    let is_whole = whole(chunk * GROUP, block) && whole(groups * GROUP, block) && whole(columns, NR);
    (is_unpacked && is_whole && n >= Count::from(MIN_OUTPUTS)).then_some((batch, [m, n, groups]))
}

/// Quantized rows times weights in the encoding of parameter 7.
pub(crate) fn integer(launch: &LaunchShape<'_>) -> Option<Needs> {
    let encoding = weight::from_code(launch.param(7))?;
    let (batch, [m, n, groups]) = integers(launch, encoding.group_len())?;
    let needs = Needs::new().read(quantized(batch * m, launch.param(2)), ROW_ALIGN);
    // Only plain blocks come in batches.
    let (k, is_one) = (groups * GROUP, launch.plane().is_some());
    let set = encoding.interleaved_rows() as u64;
    let needs = match encoding {
        Encoding::Block(format) => needs.read(batch * n * bytes(DType::Block(format), k)?, 1),
        Encoding::Interleaved { of: RowEncoding::Block(format), .. } if is_one && n.0.is_multiple_of(set) => {
            needs.read(n * bytes(DType::Block(format), k)?, 1)
        }
        Encoding::Planes(format) | Encoding::Interleaved { of: RowEncoding::Planes(format), .. }
            if is_one && format.mode() == MlxMode::Affine && n.0.is_multiple_of(set) =>
        {
            // Interleaved planes are bytes, which may begin anywhere.
            let (size, is_plain) = (format.scale_dtype().size(), set == 1);
            let [align, scale_align] = if is_plain { [4, size] } else { [1, 1] };
            let scales = n * Count(k.0 / format.group() as u64) * size;
            let needs = needs.read(n * groups * (GROUP / 8 * format.bits()), align);
            needs.read(scales, scale_align).read(scales, scale_align)
        }
        _ => return None,
    };
    Some(needs.write(batch * m * n * 4u32, 4))
}

/// Quantizing rows of f32. Parameters: rows, groups of a row, rows of a tile.
pub(crate) fn quantize(launch: &LaunchShape<'_>) -> Option<Needs> {
    quantize_from(launch, 4)
}

/// Quantizing rows of bf16. Parameters: as for [`quantize`].
pub(crate) fn quantize_bf16(launch: &LaunchShape<'_>) -> Option<Needs> {
    quantize_from(launch, 2)
}

/// Quantizing rows of elements of `size` bytes.
fn quantize_from(launch: &LaunchShape<'_>, size: usize) -> Option<Needs> {
    let [rows, groups, tile_rows] = [0, 1, 2].map(|i| launch.count(i));
    in_tiles_of(launch, rows, tile_rows).filter(|_| groups.0 > 0)?;
    let needs = Needs::new().read(rows * groups * (GROUP * size), size);
    Some(needs.write(quantized(rows, launch.param(1)), ROW_ALIGN))
}
