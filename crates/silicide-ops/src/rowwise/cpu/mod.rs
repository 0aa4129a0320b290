//! Row-wise ops on the CPU: one driver for every [`RowFormula`].
//!
//! A row of ordinary length is one tile's work: it is read from memory once, reduced, and read again from the cache to be
//! stored. A long row is split in spans of a length that follows from the row's length alone: one launch reduces each span
//! to a partial result in scratch memory, another stores each span from all partial results of its row. The bits of a row
//! depend on the row alone: not on threads, not on the number of rows.
//!
//! The driver (`tile.rs`) has the tiles, the element types, in-place rules and stores past the caches. A formula sees blocks
//! of f32 and has no `unsafe`. `header.rs` has the parameter words and the bytes that a launch needs of its bindings.

mod header;
mod needs;
mod tile;

pub(crate) use needs::{finish_need, partial_need, whole_need, whole_quantized_need};
pub(crate) use tile::{RowBlock, RowBlocks, RowResult, RowSpan, finish, partial, whole, whole_quantized};

use super::{RowOp, RowWords};
use crate::cpu::{Simd, TILE};
use crate::product::needs::check_alignment;
use header::RowHeader;
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_gemm::q8::GROUP;
use silicide_hal::{Backend, DeviceInfo, NativeKernel, Program};
use smallvec::SmallVec;
use tile::KEPT;

/// The formula of a row-wise op. Implementing it is safe: it sees slices of f32, never a binding.
///
/// Methods are `#[inline(always)]`, so that each instruction set has its own copy.
pub(crate) trait RowFormula: Copy {
    /// The op whose slots it reads and writes.
    type Op: RowOp;
    /// The partial result of a reduction over a span.
    type Partial: Copy;
    /// The scalars for storing a row, changed from block to block if need be.
    type Row;
    /// Whether a span is stored from the spans before it alone, so that a row that is one span needs no reduction.
    const PREFIX: bool = false;
    /// Whether [`RowBlocks::next_with_buffer`] keeps what it is given for the store, for rows of up to 8192 elements.
    const KEEPS: bool = false;

    /// Reads the parameters.
    fn new(words: RowWords) -> Self;

    /// Combines `x` with the other input ([`RowRoles::other`](super::RowRoles::other)), in place.
    #[inline(always)]
    fn combine(&self, x: &mut [f32], other: &[f32]) {
        let _ = (x, other);
    }

    /// Reduces a span, block by block, in as many passes as it takes.
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> Self::Partial;

    /// Makes what the store of `span` takes out of the partial results of its row, in order. They are empty for a row of
    /// one span of a [`PREFIX`](RowFormula::PREFIX) formula.
    fn finish(&self, partials: &[Self::Partial], span: RowSpan) -> Self::Row;

    /// Computes a block of outputs. Not called for ops with one result per row.
    #[inline(always)]
    fn store<S: Simd>(&self, row: &mut Self::Row, block: RowBlock<'_>) {
        let _ = (row, block);
    }

    /// Returns the result of a row. Only called for ops with one result per row.
    #[inline(always)]
    fn result(&self, row: Self::Row) -> RowResult {
        let _ = row;
        RowResult::F32(f32::NAN)
    }
}

/// The programs of a [`RowFormula`], made by [`row_programs!`].
pub(crate) struct RowPrograms {
    /// Whole rows.
    pub(crate) whole: &'static NativeKernel,
    /// Spans to partial results.
    pub(crate) partial: &'static NativeKernel,
    /// Partial results to outputs.
    pub(crate) finish: &'static NativeKernel,
    /// Whole rows, whose `y` is then quantized.
    pub(crate) quantized: Option<&'static NativeKernel>,
    /// Bytes of a partial result.
    pub(crate) partial_bytes: usize,
}

/// Returns the bytes of workspace that whole rows of a formula use.
pub(crate) const fn workspace<F: RowFormula>() -> usize {
    if F::KEEPS { KEPT * size_of::<f32>() } else { 0 }
}

/// Declares the [`RowPrograms`] of a [`RowFormula`]: `row_programs!(NAME, Formula, "label")`. With `, quantized` at the end
/// there is a program that also quantizes `y`.
macro_rules! row_programs {
    ($name:ident, $formula:ty, $label:literal $(, $quantized:ident)?) => {
        static $name: $crate::rowwise::cpu::RowPrograms = {
            use $crate::rowwise::cpu::{RowFormula, RowPrograms, finish, partial, whole, workspace};
            use $crate::rowwise::cpu::{finish_need, partial_need, whole_need};
            // SAFETY: a tile reads and writes its own rows; rows and columns past the end are skipped (`RowTile`).
            $crate::cpu::native_kernel!(unsafe WHOLE, $label, whole::<S, $formula>, needs whole_need::<$formula>,
                workspace workspace::<$formula>());
            // SAFETY: a tile reads its own span and writes its own partial result.
            $crate::cpu::native_kernel!(unsafe PARTIAL, concat!($label, ".partial"), partial::<S, $formula>,
                needs partial_need::<$formula>);
            // SAFETY: a tile reads the partial results of its row, and writes its own span or the result of its row.
            $crate::cpu::native_kernel!(unsafe FINISH, concat!($label, ".finish"), finish::<S, $formula>,
                needs finish_need::<$formula>);
            RowPrograms {
                whole: &WHOLE,
                partial: &PARTIAL,
                finish: &FINISH,
                quantized: $crate::rowwise::cpu::row_programs!(@ $formula, $label $(, $quantized)?),
                partial_bytes: size_of::<<$formula as RowFormula>::Partial>(),
            }
        };
    };
    (@ $formula:ty, $label:literal) => { None };
    (@ $formula:ty, $label:literal, quantized) => {{
        use $crate::rowwise::cpu::{whole_quantized, whole_quantized_need};
        // SAFETY: as for whole rows; a tile quantizes the rows that it has written.
        $crate::cpu::native_kernel!(unsafe QUANTIZED, concat!($label, ".quantized"), whole_quantized::<S, $formula>,
            needs whole_quantized_need::<$formula>, workspace workspace::<$formula>());
        Some(&QUANTIZED)
    }};
}
pub(crate) use row_programs;

/// The CPU kernel of a row-wise op.
pub(crate) struct CpuRows<O> {
    /// Its name: `l2_norm.rows.cpu`.
    pub(crate) name: &'static str,
    /// Returns the programs of a call.
    pub(crate) programs: fn(&O) -> &'static RowPrograms,
}

impl<O: RowOp> Kernel for CpuRows<O> {
    type Op = O;

    fn name(&self) -> &'static str {
        self.name
    }

    fn fits(&self, op: &O, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let shape = io.input(0).shape;
        if op.is_quantized() {
            check_alignment(&io.output(io.outputs.len().saturating_sub(1)))?;
            if (self.programs)(op).quantized.is_none() || shape.last() > longest(O::ROLES.per_row) {
                return Err(Decline("quantizes rows that one tile has written"));
            }
        }
        if on.backend != Backend::Cpu {
            Err(Decline("runs on the CPU"))
        } else if u32::try_from(shape.rows()).is_err() || u32::try_from(shape.last()).is_err() {
            Err(Decline("more than 4294967295 rows or columns"))
        } else {
            Ok(Cost::GOOD)
        }
    }

    fn plan(&self, op: &O, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        plan(op, io, (self.programs)(op))
    }
}

/// The longest row, or span of a row, in elements. Rows that are written too fill L2; rows that are only read are split
/// sooner, so that all threads have work.
const fn longest(per_row: bool) -> usize {
    if per_row { 16 << 10 } else { 64 << 10 }
}

/// The launches of a call.
fn plan<O: RowOp>(op: &O, io: &Io<'_>, programs: &RowPrograms) -> Plan {
    let (roles, longest) = (O::ROLES, longest(O::ROLES.per_row));
    let mut header = RowHeader::new(op, io);
    let args: SmallVec<[Arg; 6]> =
        (0..io.inputs.len() + io.outputs.len()).map(|i| Arg::slot(i as u8)).collect();
    if header.k <= longest {
        header.per = (TILE / header.k).max(1);
        let grid = [header.rows.div_ceil(header.per) as u32, 1, 1];
        let mut words = header.encode(roles.words.len());
        let program = match programs.quantized.filter(|_| op.is_quantized()) {
            Some(quantized) => {
                words.push((header.k / GROUP) as u32);
                quantized
            }
            None => programs.whole,
        };
        return Plan::launch(Program::Native(program), &args, &words, grid);
    }
    // Spans of nearly equal length, in whole vectors.
    header.per = header.k.div_ceil(header.k.div_ceil(longest)).next_multiple_of(64);
    let mut plan = Plan::default();
    let scratch = plan.scratch(header.scratch_bytes(programs.partial_bytes).unwrap_or(usize::MAX));
    let with = |access| -> SmallVec<[Arg; 6]> {
        args.iter().copied().chain([Arg::scratch(scratch, access)]).collect()
    };
    let words = header.encode(roles.words.len());
    let grid = [header.spans() as u32, header.rows as u32, 1];
    // The outputs are not touched before every span is reduced, so they may be the inputs here too.
    plan.push(Program::Native(programs.partial), &with(Access::Write), &words, grid);
    let grid = if roles.per_row { [1, header.rows as u32, 1] } else { grid };
    plan.push(Program::Native(programs.finish), &with(Access::Read), &words, grid);
    plan
}
