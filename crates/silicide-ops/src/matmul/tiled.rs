//! GEMM on GPUs without matrices of subgroups: tiles of outputs through shared memory, summed in f32.

use super::gpu::{Fill, check, kernel, plan_tiles};
use super::{Matmul, Problem, gpu_needs};
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, Part, Snippet, WgslKernel};
use silicide_quant::Encoding;

static BODY: Snippet = Snippet { name: "matmul.tiled.wgsl", text: include_str!("tiled.wgsl") };
/// Common code of the kernels, and a tile of outputs over the weights of one binding.
pub(crate) static TILED_CELLS: Snippet = Snippet {
    name: "matmul tiled, cells",
    text: concat!(include_str!("tile.wgsl"), include_str!("tiled_cells.wgsl")),
};
pub(crate) static TILED_SQUARE: Snippet =
    Snippet { name: "matmul tiled, square", text: include_str!("tiled_square.wgsl") };
/// Where rows of activations and weight rows begin.
pub(crate) static FILL_ROWS: Snippet =
    Snippet { name: "matmul fill, rows", text: include_str!("fill_rows.wgsl") };
pub(crate) static FILL_COLUMNS: Snippet =
    Snippet { name: "matmul fill, columns", text: include_str!("fill_columns.wgsl") };
static ROWS_WHOLE: Snippet =
    Snippet { name: "matmul fill, whole rows", text: include_str!("fill_rows_whole.wgsl") };
static ROWS_SINGLE: Snippet =
    Snippet { name: "matmul fill, single rows", text: include_str!("fill_rows_single.wgsl") };
static COLUMNS_WHOLE: Snippet =
    Snippet { name: "matmul fill, whole columns", text: include_str!("fill_columns_whole.wgsl") };
static COLUMNS_SINGLE: Snippet =
    Snippet { name: "matmul fill, single columns", text: include_str!("fill_columns_single.wgsl") };

/// Invocations along a row of the tile, and along a column of all but the tall tile, as in `tiled_cells.wgsl`.
const SIDE: u32 = 8;
/// Problems with more rows and columns than this have 8 x 8 outputs in an invocation, others 4 x 4.
pub(crate) const LARGE: usize = 40;
/// Depth that passes through shared memory at a time, as in `tiled_cells.wgsl`.
pub(crate) const STEP: usize = 16;

/// The kernel for many rows.
pub(super) struct TiledMatmul;

/// The kernel for many rows.
pub(super) static TILED: TiledMatmul = TiledMatmul;

/// The texts for depths of `k`: whole steps, or element by element.
pub(crate) fn fill(k: usize) -> Fill {
    match k.is_multiple_of(STEP) {
        true => Fill { rows: &ROWS_WHOLE, columns: &COLUMNS_WHOLE, step: STEP },
        false => Fill { rows: &ROWS_SINGLE, columns: &COLUMNS_SINGLE, step: 1 },
    }
}

/// The tile of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileShape {
    /// Invocations along a column of the tile.
    down: u32,
    /// Cells along a side of an invocation's outputs.
    quads: u32,
}

impl TileShape {
    /// 32 x 32 outputs.
    pub(crate) const SMALL: TileShape = TileShape { down: SIDE, quads: 1 };

    /// For `rows` rows and `columns` columns: 32 x 32, 64 x 64, or 128 rows x 64 columns, where a weight is unpacked half as often.
    /// A live extent of more than 64 rows keeps its tile at every number of rows, so it can be launched for those alone.
    pub(crate) fn of(rows: usize, columns: usize) -> TileShape {
        let square = TileShape { down: SIDE, quads: 2 };
        match (rows, columns) {
            _ if rows.min(columns) <= LARGE => TileShape::SMALL,
            _ if rows > square.rows() => TileShape { down: 2 * SIDE, quads: 2 },
            _ => square,
        }
    }

    /// Rows of the tile.
    pub(crate) const fn rows(self) -> usize {
        (4 * self.down * self.quads) as usize
    }

    /// Columns of the tile.
    pub(crate) const fn columns(self) -> usize {
        (4 * SIDE * self.quads) as usize
    }

    /// Tiles of `rows` rows and `columns` columns.
    pub(crate) fn count(self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.rows()) * columns.div_ceil(self.columns())
    }

    /// Sets the `override` constants of a kernel.
    pub(crate) fn constants(self, kernel: WgslKernel) -> WgslKernel {
        // A cell more than the tile has.
        let (a_pitch, b_pitch) = (self.down * self.quads + 1, 4 * (SIDE * self.quads + 1));
        kernel
            .constant("WG", self.down * SIDE)
            .constant("DOWN", self.down)
            .constant("QUADS", self.quads)
            .constant("A_PITCH", a_pitch)
            .constant("B_PITCH", b_pitch)
            .constant("A_CELLS", a_pitch * STEP as u32)
            .constant("B_CELLS", b_pitch * STEP as u32)
    }
}

/// The plan for many rows.
pub(crate) fn plan_tiled(problem: &Problem, weights: Encoding, on: &DeviceInfo) -> Plan {
    let Some(mut kernel) = kernel(&[&BODY, &TILED_CELLS], weights, on) else { return Plan::default() };
    let fill = fill(problem.k);
    kernel.append([&FILL_ROWS, fill.rows].map(Part::plain));
    kernel.append([&FILL_COLUMNS, fill.columns, &TILED_SQUARE].map(|text| Part::bound(text, "b", 1)));
    let tile = TileShape::of(problem.m, problem.n);
    let kernel = tile.constants(kernel);
    // SAFETY: past the last row or column it is the last one's that is read, or nothing, and nothing is stored; `needs` requires depths
    // of whole steps where they are not looked at one by one.
    let kernel = unsafe { kernel.unchecked(gpu_needs::needs, &gpu_needs::facts(weights, fill.step)) };
    plan_tiles(&kernel, problem, weights, on, |rows, columns| tile.count(rows, columns))
}

impl Kernel for TiledMatmul {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        BODY.name
    }

    fn fits(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        check(Problem::of(io), on).map(|_| Cost::GOOD)
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let weights = Encoding::from(io.input(1).dtype);
        Problem::of(io).map_or(Plan::default(), |problem| plan_tiled(&problem, weights, on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_grow_with_rows_and_columns() {
        let extents = |rows, columns| {
            let tile = TileShape::of(rows, columns);
            (tile.rows(), tile.columns())
        };
        assert_eq!([extents(512, 40), extents(40, 512)], [(32, 32); 2]);
        assert_eq!([extents(41, 512), extents(64, 512)], [(64, 64); 2]);
        assert_eq!([extents(65, 512), extents(usize::MAX, 512)], [(128, 64); 2]);
        assert_eq!(TileShape::of(512, 512).count(129, 65), 4);
    }
}
