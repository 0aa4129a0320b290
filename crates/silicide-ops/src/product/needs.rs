//! What programs of products need of their bindings, on the CPU. Weights of one product are `[n, k]`, activations `[m, k]`, outputs
//! `[m, n]`, for each of a batch; activations of products in integers are quantized rows.
//!
//! A tile writes some rows and columns of the outputs of one batch: grids are exactly as large as tiles of the extents in the
//! parameters cover the outputs, so that no tile begins outside of them.

use crate::cpu::needs::in_tiles_of;
use crate::mlx;
use crate::needs::bytes;
use silicide_gemm::q8::{GROUP, INTERLEAVE, MAX_KC, MAX_NC, MIN_OUTPUTS, NR, quantized_row_bytes};
use silicide_hal::{Count, LaunchShape, Needs};
use silicide_quant::{DType, Format, MlxMode};

/// What quantized rows are aligned to: a cache line.
pub(crate) const ROW_ALIGN: usize = 64;

/// Bytes of `rows` quantized rows.
pub(crate) fn quantized(rows: Count, groups: u32) -> Count {
    rows * quantized_row_bytes(groups as usize)
}

/// Whether the grid is of tiles of so many columns and rows over `[m, n]`, for each of a batch; returns the batch.
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
    let is_whole = sets == 1
        || (sets == INTERLEAVE as u64 && n.0.is_multiple_of(sets) && columns.0.is_multiple_of(sets));
    let batch = batch(launch, [m, n], [rows, columns])?;
    let (size, needs) = (dtype.size(), Needs::new().read(batch * m * k * 4u32, 4));
    let needs = needs.read(batch * n * k * size, size).write(batch * m * n * 4u32, 4);
    (is_dense && is_whole && k.0 > 0).then_some(needs)
}

/// Rows of f32 times weights of a block format that are decoded. Parameters: m, n, k, columns and rows of a tile, the format.
pub(crate) fn blocks(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [m, n, k, columns, rows] = [0, 1, 2, 3, 4].map(|i| launch.count(i));
    let format = DType::Block(*Format::ALL.get(launch.param(5) as usize)?);
    let batch = batch(launch, [m, n], [rows, columns])?;
    let needs = Needs::new().read(batch * m * k * 4u32, 4).read(batch * n * bytes(format, k)?, 1);
    Some(needs.write(batch * m * n * 4u32, 4))
}

/// What products in integers have in common. Parameters: m, n, groups, columns and rows of a tile, columns and groups that are
/// unpacked at a time, the format. Blocks have `block` elements.
fn integers(launch: &LaunchShape<'_>, block: usize) -> Option<(Count, [Count; 3])> {
    let [m, n, groups, columns, rows, group, chunk] = [0, 1, 2, 3, 4, 5, 6].map(|i| launch.count(i));
    let batch = batch(launch, [m, n], [rows, columns])?;
    let whole = |count: Count, of: usize| count.0 != 0 && count.0.is_multiple_of(of as u64);
    let is_unpacked = whole(group, NR) && group <= Count::from(MAX_NC) && chunk <= Count::from(MAX_KC);
    let is_whole = whole(chunk * GROUP, block) && whole(groups * GROUP, block) && whole(columns, NR);
    (is_unpacked && is_whole && n >= Count::from(MIN_OUTPUTS)).then_some((batch, [m, n, groups]))
}

/// Quantized rows times weights of a block format.
pub(crate) fn integer(launch: &LaunchShape<'_>) -> Option<Needs> {
    let format = *Format::ALL.get(launch.param(7) as usize)?;
    let (batch, [m, n, groups]) = integers(launch, format.block_len())?;
    let weights = batch * n * bytes(DType::Block(format), groups * GROUP)?;
    let rows = quantized(batch * m, launch.param(2));
    Some(Needs::new().read(rows, ROW_ALIGN).read(weights, 1).write(batch * m * n * 4u32, 4))
}

/// Quantized rows times interleaved weights of a block format.
pub(crate) fn interleaved(launch: &LaunchShape<'_>) -> Option<Needs> {
    let is_one = launch.plane().is_some() && launch.param(1).is_multiple_of(INTERLEAVE as u32);
    integer(launch).filter(|_| is_one)
}

/// Quantized rows times affine codes, whose scales and biases are in planes of their own.
pub(crate) fn affine(launch: &LaunchShape<'_>) -> Option<Needs> {
    let format = mlx::from_code(launch.param(7)).filter(|format| format.mode() == MlxMode::Affine)?;
    let (_, [m, n, groups]) = integers(launch, format.group())?;
    launch.plane()?;
    let codes = n * groups * (GROUP / 8 * format.bits());
    let scales = n * Count(groups.0 * GROUP as u64 / format.group() as u64) * format.scale_dtype().size();
    let align = format.scale_dtype().size();
    let needs = Needs::new().read(quantized(m, launch.param(2)), ROW_ALIGN).read(codes, 4);
    Some(needs.read(scales, align).read(scales, align).write(m * n * 4u32, 4))
}

/// Quantizing activations. Parameters: rows, groups of a row, rows of a tile.
pub(crate) fn activations(launch: &LaunchShape<'_>) -> Option<Needs> {
    let [rows, groups, tile_rows] = [0, 1, 2].map(|i| launch.count(i));
    in_tiles_of(launch, rows, tile_rows)?;
    Some(Needs::new().read(rows * groups * (GROUP * 4), 4).write(quantized(rows, launch.param(1)), ROW_ALIGN))
}
