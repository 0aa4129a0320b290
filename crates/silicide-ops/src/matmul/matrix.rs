//! GEMM on GPUs whose subgroups multiply matrices: many rows, for every weight format.
//!
//! | matrices | devices | factors |
//! |---|---|---|
//! | 16x16x16 of f16 | AMD from RDNA3 on, NVIDIA | rounded to f16 |
//! | 8x8x8 of f16 | Apple | rounded to f16 |
//! | 8x8x8 of f32 | Apple | as they are |
//!
//! Sums are f32. Calls that are exact, and weights of f32, keep f32. Rounding loses the bits of factors below 2^-14; a product with a
//! factor that f16 cannot hold is summed again in f32 (`matrix_cells.wgsl`). It is found by infinity, so f16 is for devices that round
//! conversions to nearest even: neither WGSL nor SPIR-V promise it without an execution mode. Intel's 8x8x16 and 8x16x16 are missing: WGSL, as naga
//! reads it, has square matrices only.

use super::gpu::{self, Fill};
use super::tiled::{FILL_COLUMNS, FILL_ROWS, LARGE};
use super::{Matmul, Problem, gpu_needs};
use crate::weight;
use silicide_core::kernel::{Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, MatrixShape, Part, Snippet, WgslKernel};
use silicide_quant::Encoding;

static BODY: Snippet = Snippet { name: "matmul.matrix.wgsl", text: include_str!("matrix.wgsl") };
/// The entry point, which calls `multiply(group, lane)`.
pub(crate) static MATRIX_MAIN: Snippet =
    Snippet { name: "matmul matrix, main", text: include_str!("matrix_main.wgsl") };
/// A tile of outputs over the weights of one binding.
pub(crate) static MATRIX_SQUARE: Snippet =
    Snippet { name: "matmul matrix, square", text: include_str!("matrix_square.wgsl") };
/// A text that fills columns, and the product in f32.
macro_rules! exact {
    ($file:literal) => {
        concat!(include_str!($file), include_str!("matrix_exact.wgsl"))
    };
}
static ROWS_WHOLE: Snippet =
    Snippet { name: "matmul matrix, whole rows", text: include_str!("matrix_rows_whole.wgsl") };
static ROWS_SINGLE: Snippet =
    Snippet { name: "matmul matrix, single rows", text: include_str!("matrix_rows_single.wgsl") };
static COLUMNS_WHOLE: Snippet =
    Snippet { name: "matmul matrix, whole columns", text: exact!("matrix_columns_whole.wgsl") };
static COLUMNS_RUNS: Snippet =
    Snippet { name: "matmul matrix, runs of columns", text: exact!("matrix_columns_runs.wgsl") };
static COLUMNS_SINGLE: Snippet =
    Snippet { name: "matmul matrix, single columns", text: include_str!("matrix_columns_single.wgsl") };

/// The text of a shape, and common code.
macro_rules! cells {
    ($file:literal) => {
        Snippet {
            name: concat!("matmul ", $file),
            text: concat!(include_str!($file), include_str!("tile.wgsl"), include_str!("matrix_cells.wgsl")),
        }
    };
}
/// The elements and matrices of a shape alone.
macro_rules! elements {
    ($file:literal) => {
        Snippet { name: concat!("elements of ", $file), text: include_str!($file) }
    };
}
static F16_16_ELEMENTS: Snippet = elements!("matrix_f16_16.wgsl");
static F16_8_ELEMENTS: Snippet = elements!("matrix_f16_8.wgsl");
static F32_8_ELEMENTS: Snippet = elements!("matrix_f32_8.wgsl");
static F16_16: Snippet = cells!("matrix_f16_16.wgsl");
static F16_8: Snippet = cells!("matrix_f16_8.wgsl");
static F32_8: Snippet = cells!("matrix_f32_8.wgsl");

/// Subgroups of a workgroup, each with a quarter of its outputs, as in `matrix_cells.wgsl`.
pub(crate) const SUBGROUPS: u32 = 4;
/// Depth that passes through shared memory at a time.
const STEP: usize = 32;
/// Most turns in which a workgroup stores the outputs of a pair of matrices: eight pairs have a bit for each in a word.
const MOST_TURNS: usize = 4;

/// Matrices that kernels are written for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrices {
    shape: MatrixShape,
    cells: &'static Snippet,
    /// The text that names the elements, the matrices and `SIDE`.
    pub(crate) elements: &'static Snippet,
    /// Rows and columns of a matrix.
    pub(crate) side: usize,
    /// Names of the kernels of `matmul`, `linear`, `expert_linear` and `attention`.
    pub(crate) names: [&'static str; 4],
}

macro_rules! names {
    ($shape:literal) => {
        [
            concat!("matmul.matrix.", $shape, ".wgsl"),
            concat!("linear.matrix.", $shape, ".wgsl"),
            concat!("expert_linear.matrix.", $shape, ".wgsl"),
            concat!("attention.matrix.", $shape, ".wgsl"),
        ]
    };
}

/// 16x16x16 of f16.
pub(crate) static HALVES_16: Matrices = Matrices {
    shape: MatrixShape::F16M16N16K16,
    cells: &F16_16,
    elements: &F16_16_ELEMENTS,
    side: 16,
    names: names!("f16x16"),
};
/// 8x8x8 of f16.
pub(crate) static HALVES_8: Matrices = Matrices {
    shape: MatrixShape::F16M8N8K8,
    cells: &F16_8,
    elements: &F16_8_ELEMENTS,
    side: 8,
    names: names!("f16x8"),
};
/// 8x8x8 of f32.
pub(crate) static SINGLES_8: Matrices = Matrices {
    shape: MatrixShape::F32M8N8K8,
    cells: &F32_8,
    elements: &F32_8_ELEMENTS,
    side: 8,
    names: names!("f32x8"),
};

/// What a product may do with its factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors {
    pub(crate) weights: Encoding,
    /// Whether factors are multiplied as they are.
    pub(crate) exact: bool,
}

impl Factors {
    /// Whether factors may be rounded to f16.
    fn may_round(self) -> bool {
        !self.exact && weight::may_round(self.weights)
    }
}

impl Matrices {
    /// Rows and columns of a workgroup's tile.
    pub(crate) const fn tile(&self) -> usize {
        8 * self.side
    }

    /// Tiles of `rows` rows and `columns` columns.
    pub(crate) const fn count(&self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(self.tile()) * columns.div_ceil(self.tile())
    }

    /// Bytes of shared memory: a step of both factors with 16 bytes after each row, and two matrices of sums of each quarter.
    const fn shared_bytes(&self) -> usize {
        2 * self.tile() * (STEP * self.element_bytes() + 16)
            + SUBGROUPS as usize * 2 * self.side * self.side * 4
    }

    /// Bytes of a factor's element.
    pub(crate) const fn element_bytes(&self) -> usize {
        if self.shape.is_f16() { 2 } else { 4 }
    }

    /// The size of subgroups: the largest, which holds a matrix in the fewest registers of an invocation.
    pub(crate) fn subgroup(on: &DeviceInfo) -> Option<u32> {
        let (least, most) = on.features.subgroup_size;
        let required = on.features.required_subgroup_size.1;
        let size = if on.features.takes_subgroup(required) { required } else { most };
        let is_known = on.features.takes_subgroup(size) || least == most;
        (on.features.subgroups && is_known).then_some(size)
    }

    /// Whether the device multiplies these matrices, and the factors may be theirs.
    pub(crate) fn check(&self, factors: &[Factors], on: &DeviceInfo) -> Result<(), Decline> {
        if !on.features.matrices.has(self.shape) || (self.shape.is_f16() && !on.features.f16) {
            return Err(Decline("needs matrices of subgroups"));
        }
        // A factor that f16 cannot hold must be infinite there: its sums are found by that.
        if self.shape.is_f16() && !on.features.f16_rounding {
            return Err(Decline("needs conversions to f16 that round to nearest even"));
        }
        if self.shape.is_f16() && !factors.iter().all(|factors| factors.may_round()) {
            return Err(Decline("rounds factors to f16"));
        }
        let workgroup = Self::subgroup(on).unwrap_or(0).saturating_mul(SUBGROUPS);
        let turns = (2 * self.side * self.side).div_ceil(workgroup.max(1) as usize);
        if workgroup == 0 || workgroup > on.limits.max_workgroup || turns > MOST_TURNS {
            return Err(Decline("needs workgroups of four subgroups of one size"));
        }
        if on.limits.max_workgroup_bytes < self.shared_bytes() {
            return Err(Decline("needs more shared memory"));
        }
        Ok(())
    }

    /// Whether smaller tiles are no better: most of a tile would lie outside.
    pub(crate) const fn is_worth(rows: usize, columns: usize) -> bool {
        rows > LARGE && columns > LARGE
    }

    /// Returns a cost below [`Cost::BEST`] where they are worth it, otherwise one above `other`. Larger matrices win over smaller ones,
    /// and f16 over f32.
    pub(crate) fn cost(&self, is_worth: bool, other: Cost) -> Cost {
        let rank = match self.shape {
            MatrixShape::F16M16N16K16 => 1,
            MatrixShape::F16M8N8K8 => 2,
            _ => 3,
        };
        if is_worth { Cost(Cost::BEST.0 / 2 + rank) } else { Cost(other.0 + rank) }
    }

    /// Common code, the fill for activations and the weights' texts. `start_a` and `keep_four_` are the kernel's own.
    pub(crate) fn common(&self, fill: Fill) -> [Part; 2] {
        [self.cells, fill.rows].map(Part::plain)
    }

    /// Sets the `override` constants of a kernel and requires its subgroups.
    pub(crate) fn constants(&self, kernel: WgslKernel, on: &DeviceInfo) -> WgslKernel {
        let size = Self::subgroup(on).unwrap_or(1);
        let kernel = kernel.constant("WG", SUBGROUPS * size);
        if on.features.takes_subgroup(size) { kernel.with_subgroup(size) } else { kernel }
    }
}

/// The texts for depths of `k`: whole steps, or element by element; weights sixteen in a row, if `runs`.
pub(crate) fn fill(k: usize, runs: bool) -> Fill {
    let columns = if runs { &COLUMNS_RUNS } else { &COLUMNS_WHOLE };
    match k.is_multiple_of(STEP) {
        true => Fill { rows: &ROWS_WHOLE, columns, step: STEP },
        false => Fill { rows: &ROWS_SINGLE, columns: &COLUMNS_SINGLE, step: 1 },
    }
}

/// Returns whether weights with this alignment in bytes can be read sixteen in a row.
pub(crate) fn takes_runs(encoding: Encoding, alignment: u32) -> bool {
    weight::gpu::runs_alignment(encoding).is_some_and(|needed| alignment >= needed)
}

/// Returns the alignment that weights need, as a fact of a program.
pub(crate) fn runs_alignment(encoding: Encoding, runs: bool) -> u32 {
    weight::gpu::runs_alignment(encoding).filter(|_| runs).unwrap_or(1)
}

/// The kernel of `matmul` in matrices.
pub(super) struct Matrix(&'static Matrices);

/// The kernels of `matmul` in matrices.
pub(super) static MATRIX: [Matrix; 3] = [Matrix(&HALVES_16), Matrix(&HALVES_8), Matrix(&SINGLES_8)];

/// The plan of one product.
pub(crate) fn plan(
    matrices: &Matrices,
    problem: &Problem,
    weights: Encoding,
    runs: bool,
    on: &DeviceInfo,
) -> Plan {
    let Some(mut kernel) = gpu::kernel(&[&BODY], weights, on) else { return Plan::default() };
    let fill = fill(problem.k, runs);
    kernel.append(matrices.common(fill));
    kernel.append([&FILL_ROWS, &MATRIX_MAIN].map(Part::plain));
    kernel.append([&FILL_COLUMNS, fill.columns, &MATRIX_SQUARE].map(|text| Part::bound(text, "b", 1)));
    let kernel = matrices.constants(kernel, on);
    let [code, step] = gpu_needs::facts(weights, fill.step);
    let facts = [code, step, 1, runs_alignment(weights, runs)];
    // SAFETY: as for the tiled kernel; workgroups past the end have no depth and no columns. `needs` requires the alignment of weights
    // that are read sixteen in a row.
    let kernel = unsafe { kernel.unchecked(gpu_needs::needs, &facts) };
    gpu::plan_tiles(&kernel, problem, weights, on, |rows, columns| matrices.count(rows, columns))
}

impl Kernel for Matrix {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        self.0.names[0]
    }

    fn fits(&self, op: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = gpu::check(Problem::of(io), on)?;
        let factors = Factors { weights: io.input(1).dtype.into(), exact: op.exact };
        self.0.check(&[factors], on)?;
        Ok(self.0.cost(Matrices::is_worth(problem.m, problem.n), Cost::GOOD))
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let weights = Encoding::from(io.input(1).dtype);
        let runs = takes_runs(weights, io.input(1).alignment);
        Problem::of(io).map_or(Plan::default(), |problem| plan(self.0, &problem, weights, runs, on))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_hal::{Backend, MatrixShapes};
    use silicide_quant::{DType, Format};

    /// A device with every shape and subgroups of 32 to 64.
    fn device() -> DeviceInfo {
        let mut on = DeviceInfo::new(Backend::Vulkan, "vulkan:0", "test");
        on.limits.max_workgroup_bytes = 32 << 10;
        on.features.f16 = true;
        on.features.f16_rounding = true;
        on.features.subgroups = true;
        on.features.subgroup_size = (32, 64);
        on.features.required_subgroup_size = (32, 64);
        on.features.matrices = MatrixShape::ALL.into_iter().collect();
        on
    }

    const BLOCKS: Factors = Factors { weights: Encoding::Block(Format::Q4K), exact: false };

    #[test]
    fn each_kernel_needs_its_shape() {
        for matrices in [&HALVES_16, &HALVES_8, &SINGLES_8] {
            let mut on = device();
            assert_eq!(matrices.check(&[BLOCKS], &on), Ok(()));
            on.features.matrices = MatrixShapes::NONE;
            assert!(matrices.check(&[BLOCKS], &on).is_err());
            on.features.matrices = MatrixShapes::NONE.with(matrices.shape);
            assert_eq!(matrices.check(&[BLOCKS], &on), Ok(()));
        }
    }

    #[test]
    fn exact_calls_and_weights_of_f32_are_not_rounded() {
        let exact = Factors { exact: true, ..BLOCKS };
        let singles = Factors { weights: DType::F32.into(), exact: false };
        for factors in [exact, singles] {
            assert!(HALVES_16.check(&[BLOCKS, factors], &device()).is_err());
            assert!(HALVES_8.check(&[factors], &device()).is_err());
            assert_eq!(SINGLES_8.check(&[BLOCKS, factors], &device()), Ok(()));
        }
    }

    #[test]
    fn devices_that_lack_something_are_declined() {
        let lacks = |change: fn(&mut DeviceInfo)| {
            let mut on = device();
            change(&mut on);
            HALVES_16.check(&[BLOCKS], &on).is_err()
        };
        assert!(lacks(|on| on.features.f16 = false));
        assert!(lacks(|on| on.features.f16_rounding = false));
        assert!(lacks(|on| on.features.subgroups = false));
        assert!(lacks(|on| on.features.required_subgroup_size = (0, 0)));
        assert!(lacks(|on| on.features.required_subgroup_size = (16, 16)));
        assert!(lacks(|on| on.limits.max_workgroup = 128));
        assert!(lacks(|on| on.limits.max_workgroup_bytes = 27 << 10));
    }

    #[test]
    fn larger_matrices_win_and_small_products_are_for_smaller_tiles() {
        assert!(Matrices::is_worth(128, 128) && !Matrices::is_worth(16, 128) && !Matrices::is_worth(128, 16));
        for matrices in [&HALVES_16, &HALVES_8, &SINGLES_8] {
            assert!(matrices.cost(true, Cost::GOOD) < Cost::BEST);
            assert!(matrices.cost(false, Cost::GOOD) > Cost::GOOD);
        }
        let costs = [&HALVES_16, &HALVES_8, &SINGLES_8].map(|matrices| matrices.cost(true, Cost::GOOD));
        assert!(costs.is_sorted_by(|a, b| a < b));
    }
}
