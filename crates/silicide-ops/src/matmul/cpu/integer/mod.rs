//! Weights of block formats multiplied in integers: activations are rounded to 8 bits under a scale per 32, and dot
//! products of 32 codes are exact in 32 bits.
//!
//! | file | what |
//! |---|---|
//! | `activations` | rounding rows of activations, once per call |
//! | `format` | what formats say of themselves: codes, scales and minimums of 32 weights in some columns at once |
//! | `legacy`, `k` | the formats |
//! | `unit` | the operations on integers that kernels need, and their portable form; `x86` has the others |
//! | `few` | few rows: codes go from memory to registers and meet all rows there |
//! | `panel` | many rows: codes of some columns are unpacked into a panel once, and meet the rows there |
//!
//! Lanes are columns, so nothing is ever summed across lanes. Every output is the sum over blocks, one after the other, of
//! scaled dot products; tiles, rows beside it and the two kernels do not change its bits.
//!
//! What rounding does: an activation moves by at most 1/254 of the largest of its block. A block of
//! activations with a NaN or an infinity makes the outputs of its row NaN.

mod activations;
mod few;
mod format;
mod k;
mod legacy;
mod panel;
mod unit;
#[cfg(target_arch = "x86_64")]
mod x86;

use super::{enough_tiles, on_cpu, stream_columns};
use crate::cpu::native_kernel;
use crate::matmul::{Matmul, Problem};
use activations::{ACTIVATIONS, BLOCK_BYTES};
use few::few_rows;
use format::{Codes, LEN};
use k::{Q4K, Q5K, Q6K};
use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use panel::{TILE_COLUMNS, many_rows};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::{DeviceInfo, NativeKernel, Program};
use silicide_quant::{DType, Format};
use unit::{MAX_LANES, Side};

/// Up to this many rows, storing a panel does not pay.
const FEW_ROWS: usize = 16;
/// A multiple of every number of columns that is taken at a time.
const GROUP: usize = MAX_LANES;
/// Rows that make up for unpacking a panel.
const LEAST_ROWS: usize = 64;
/// Rows whose activations stay in the caches.
const MOST_ROWS: usize = 1536;
/// Activations that one tile rounds, about.
const ROUND_ELEMENTS: usize = 16 << 10;

/// A kernel for one format.
pub(in crate::matmul) struct Integer {
    format: Format,
    side: Side,
    many: bool,
    program: &'static NativeKernel,
}

/// Declares the table of formats.
macro_rules! table {
    ($($few:ident, $many:ident, $format:ident, $few_label:literal, $many_label:literal;)*) => {
        $(
            native_kernel!($few, $few_label, few_rows::<S, $format>);
            native_kernel!($many, $many_label, many_rows::<S, $format>);
        )*

        /// Formats with kernels in integers, for few rows.
        pub(in crate::matmul) static INTEGER_FEW: [Integer; COUNT] =
            [$(Integer { format: Format::$format, side: $format::SIDE, many: false, program: &$few }),*];
        /// Formats with kernels in integers, for many rows.
        pub(in crate::matmul) static INTEGER_MANY: [Integer; COUNT] =
            [$(Integer { format: Format::$format, side: $format::SIDE, many: true, program: &$many }),*];
    };
}

/// Formats in the table.
const COUNT: usize = 8;

table! {
    FEW_Q4_0, MANY_Q4_0, Q4_0, "matmul.q4_0.few.cpu", "matmul.q4_0.many.cpu";
    FEW_Q4_1, MANY_Q4_1, Q4_1, "matmul.q4_1.few.cpu", "matmul.q4_1.many.cpu";
    FEW_Q5_0, MANY_Q5_0, Q5_0, "matmul.q5_0.few.cpu", "matmul.q5_0.many.cpu";
    FEW_Q5_1, MANY_Q5_1, Q5_1, "matmul.q5_1.few.cpu", "matmul.q5_1.many.cpu";
    FEW_Q8_0, MANY_Q8_0, Q8_0, "matmul.q8_0.few.cpu", "matmul.q8_0.many.cpu";
    FEW_Q4_K, MANY_Q4_K, Q4K, "matmul.q4_k.few.cpu", "matmul.q4_k.many.cpu";
    FEW_Q5_K, MANY_Q5_K, Q5K, "matmul.q5_k.few.cpu", "matmul.q5_k.many.cpu";
    FEW_Q6_K, MANY_Q6_K, Q6K, "matmul.q6_k.few.cpu", "matmul.q6_k.many.cpu";
}

/// Whether a kernel may round activations to 8 bits for these weights.
pub(in crate::matmul) fn may_round(dtype: DType) -> bool {
    INTEGER_FEW.iter().any(|kernel| dtype == kernel.dtype())
}

impl Integer {
    /// The weights it is for.
    pub(in crate::matmul) fn dtype(&self) -> DType {
        DType::Block(self.format)
    }
}

// SAFETY: the plan binds what the program touches, as the slots say, and keeps it inside.
unsafe impl Kernel for Integer {
    type Op = Matmul;

    fn name(&self) -> &'static str {
        self.program.name
    }

    fn fits(&self, op: &Matmul, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let problem = on_cpu(io, on)?;
        if io.input(1).dtype != self.dtype() {
            return Err(Decline("is for another weight format"));
        }
        if op.exact {
            return Err(Decline("rounds activations"));
        }
        if problem.n < MAX_LANES {
            return Err(Decline("needs more columns"));
        }
        // Both take any number of rows, to be held against each other; the one meant for it is cheaper.
        Ok(if self.many == (problem.m > FEW_ROWS) { Cost::BEST } else { Cost::GOOD })
    }

    fn plan(&self, _: &Matmul, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let Some(problem) = Problem::of(io) else { return Plan::default() };
        let Problem { batch, m, n, k } = problem;
        let (rows, blocks) = (batch * m, k / LEN);
        let mut plan = Plan::default();
        let rounded = plan.scratch(rows * blocks * BLOCK_BYTES);
        let tile_rows = (ROUND_ELEMENTS / k).max(1);
        plan.push(
            Program::Native(&ACTIVATIONS),
            &[Arg::slot(0), Arg::scratch(rounded, Access::Write)],
            &[rows as u32, blocks as u32, tile_rows as u32, self.side.word()],
            [rows.div_ceil(tile_rows) as u32, 1, 1],
        );
        let args = [Arg::scratch(rounded, Access::Read), Arg::slot(1), Arg::slot(2)];
        let (tile, grid) = if self.many {
            let across = n.div_ceil(TILE_COLUMNS);
            let most = m.div_ceil(enough_tiles(across * batch)).clamp(LEAST_ROWS, MOST_ROWS);
            let rows = m.div_ceil(m.div_ceil(most)).next_multiple_of(panel::STRIPS);
            (rows, [across, m.div_ceil(rows), batch])
        } else {
            let bytes = k / self.format.block_len() * self.format.block_bytes();
            let columns = stream_columns(bytes, n * batch).next_multiple_of(GROUP);
            (columns, [n.div_ceil(columns), 1, batch])
        };
        let params = [m, n, blocks, tile].map(|extent| extent as u32);
        plan.push(Program::Native(self.program), &args, &params, grid.map(|extent| extent as u32));
        plan
    }
}
