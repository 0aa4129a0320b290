//! Row-wise kernels on the CPU.
//!
//! A row of ordinary length is one tile's work: it is read from memory once, reduced, and read again from the cache
//! to be finished. A long row is cut in runs of a length that the row's length alone decides: one launch reduces each
//! run to a partial result in scratch memory, another finishes each run from all partial results of its row. Neither
//! the number of threads nor the number of rows changes a bit.
//!
//! A [`RowKernel`] says how a run is reduced and finished; [`row_programs!`] makes the three programs of it.

use crate::cpu::{CHUNK, Simd, TILE, element, stream};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Plan};
use silicide_hal::{Backend, DeviceInfo, NativeKernel, Program, Tile};
use silicide_quant::DType;
use smallvec::SmallVec;
use std::ops::Range;

/// Runs for kernels that read a row and write it: what a second cache holds.
pub(crate) const LONG: usize = 64 << 10;

/// Runs for kernels that only read a row.
pub(crate) const SHORT: usize = 16 << 10;

/// Parameter words that every row-wise program begins with: row length, rows, rows per tile or run length, streaming.
pub(crate) const HEADER: usize = 4;

/// A run of one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Which row.
    pub(crate) row: usize,
    /// Elements of a row.
    pub(crate) k: usize,
    /// Which run of the row.
    pub(crate) index: usize,
    /// Its first column.
    pub(crate) start: usize,
    /// One past its last column.
    pub(crate) end: usize,
}

impl Run {
    /// The run's columns in blocks of at most [`CHUNK`].
    #[inline(always)]
    pub(crate) fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (self.start..self.end).step_by(CHUNK).map(move |at| at..(at + CHUNK).min(self.end))
    }

    /// Where a column of the run's row stands in the tensor.
    #[inline(always)]
    pub(crate) fn at(self, column: usize) -> usize {
        self.row * self.k + column
    }
}

/// Local arrays of a tile, made once and used for every block.
pub(crate) struct Lanes {
    first: [f32; CHUNK],
    second: [f32; CHUNK],
    results: [f32; CHUNK],
}

/// Room for a block: two inputs to be converted to f32, where they are not, and results.
pub(crate) struct Room<'a> {
    /// For an input.
    pub(crate) first: &'a mut [f32],
    /// For another.
    pub(crate) second: &'a mut [f32],
    /// For what is to be written.
    pub(crate) results: &'a mut [f32],
}

impl Lanes {
    #[inline(always)]
    fn new() -> Lanes {
        Lanes { first: [0.0; CHUNK], second: [0.0; CHUNK], results: [0.0; CHUNK] }
    }

    /// Room for a block of so many elements.
    #[inline(always)]
    pub(crate) fn room(&mut self, count: usize) -> Room<'_> {
        let count = count.min(CHUNK);
        Room {
            first: &mut self.first[..count],
            second: &mut self.second[..count],
            results: &mut self.results[..count],
        }
    }
}

/// Asks for the elements below a block in the next row, so that they come while this one is computed: kernels that
/// compute much per element would otherwise wait for memory half of the time, and memory for them the other half.
#[inline(always)]
pub(crate) fn fetch_next_row(tile: &Tile<'_>, binding: usize, code: u32, run: Run, block: Range<usize>) {
    let (_, rows, _) = header(tile);
    if run.row + 1 >= rows || run.end - run.start < run.k {
        return;
    }
    let size = if code == element::code(DType::F32) { 4 } else { 2 };
    let start = tile.start(binding).wrapping_add(run.at(run.k + block.start) * size);
    for line in (0..block.len() * size).step_by(64) {
        stream::fetch::<false>(start.wrapping_add(line));
    }
}

/// How a row is reduced and finished. Bindings and parameters past [`HEADER`] are the implementor's own.
pub(crate) trait RowKernel {
    /// What is kept of a run.
    type Partial: Copy;
    /// Rows longer than this are cut in runs.
    const LONGEST: usize;
    /// Whether every run is finished, or only the row as a whole, as its first run.
    const WRITES_RUNS: bool;
    /// Bytes of workspace that [`RowKernel::row`] uses.
    const WORKSPACE: usize = 0;

    /// Reduces a run.
    ///
    /// # Safety
    /// The instruction set is present; the tile is one that [`plan`] made for this kernel.
    unsafe fn reduce<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) -> Self::Partial;

    /// Writes what is to be written of a run, given the partial results of its row.
    ///
    /// # Safety
    /// As above.
    unsafe fn finish<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run, partials: &[Self::Partial]);

    /// A row that is one run.
    ///
    /// # Safety
    /// As above.
    #[inline(always)]
    unsafe fn row<S: Simd>(tile: &Tile<'_>, lanes: &mut Lanes, run: Run) {
        // SAFETY: the caller's promise.
        unsafe {
            let partial = Self::reduce::<S>(tile, lanes, run);
            Self::finish::<S>(tile, lanes, run, &[partial]);
        }
    }
}

#[inline(always)]
fn header(tile: &Tile<'_>) -> (usize, usize, usize) {
    (tile.param(0) as usize, tile.param(1) as usize, tile.param(2) as usize)
}

/// Whether a kernel's outputs go past the caches.
#[inline(always)]
pub(crate) fn streaming(tile: &Tile<'_>) -> bool {
    tile.param(3) != 0
}

#[inline(always)]
fn end(tile: &Tile<'_>) {
    if streaming(tile) {
        stream::fence();
    }
}

/// A tile of whole rows.
///
/// # Safety
/// As for [`RowKernel`].
#[inline(always)]
pub(crate) unsafe fn whole<S: Simd, K: RowKernel>(tile: &Tile<'_>) {
    let (k, rows, per_tile) = header(tile);
    let first = tile.index[0] as usize * per_tile;
    let mut lanes = Lanes::new();
    for row in first..(first + per_tile).min(rows) {
        let run = Run { row, k, index: 0, start: 0, end: k };
        // SAFETY: the caller's promise.
        unsafe { K::row::<S>(tile, &mut lanes, run) };
    }
    end(tile);
}

#[inline(always)]
fn run_of(tile: &Tile<'_>) -> Run {
    let (k, _, length) = header(tile);
    let [index, row, _] = tile.index;
    let start = index as usize * length;
    Run { row: row as usize, k, index: index as usize, start, end: (start + length).min(k) }
}

/// A tile that reduces one run. Scratch is the last binding.
///
/// # Safety
/// As for [`RowKernel`].
#[inline(always)]
pub(crate) unsafe fn partial<S: Simd, K: RowKernel>(tile: &Tile<'_>) {
    let run = run_of(tile);
    let at = run.row * tile.grid[0] as usize + run.index;
    // SAFETY: the caller's promise; the plan made scratch for one partial result per tile of this grid.
    unsafe {
        let result = K::reduce::<S>(tile, &mut Lanes::new(), run);
        tile.write::<K::Partial>(tile.bound() - 1, at..at + 1).fill(result);
    }
}

/// A tile that finishes one run, or one row, from the partial results in scratch.
///
/// # Safety
/// As for [`RowKernel`].
#[inline(always)]
pub(crate) unsafe fn finish<S: Simd, K: RowKernel>(tile: &Tile<'_>) {
    let run = run_of(tile);
    let (k, _, length) = header(tile);
    let runs = k.div_ceil(length.max(1));
    // SAFETY: the caller's promise; the launch before wrote all of scratch.
    unsafe {
        let partials = tile.read_part::<K::Partial>(tile.bound() - 1, run.row * runs..(run.row + 1) * runs);
        K::finish::<S>(tile, &mut Lanes::new(), run, partials);
    }
    end(tile);
}

/// The programs of a [`RowKernel`].
pub(crate) struct RowPrograms {
    /// Whole rows.
    pub(crate) whole: &'static NativeKernel,
    /// Runs to partial results.
    pub(crate) partial: &'static NativeKernel,
    /// Partial results to outputs.
    pub(crate) finish: &'static NativeKernel,
}

/// Declares the [`RowPrograms`] of a [`RowKernel`]: `row_programs!(NAME, Kernel, "label")`.
macro_rules! row_programs {
    ($name:ident, $kernel:ty, $label:literal) => {
        static $name: $crate::rows::cpu::RowPrograms = {
            use $crate::rows::cpu::{RowKernel, finish, partial, whole};
    $crate::cpu::native_kernel!(WHOLE, $label, whole::<S, $kernel>,
                workspace <$kernel as RowKernel>::WORKSPACE);
            $crate::cpu::native_kernel!(PARTIAL, concat!($label, ".partial"), partial::<S, $kernel>);
            $crate::cpu::native_kernel!(FINISH, concat!($label, ".finish"), finish::<S, $kernel>);
            $crate::rows::cpu::RowPrograms { whole: &WHOLE, partial: &PARTIAL, finish: &FINISH }
        };
    };
}
pub(crate) use row_programs;

/// Whether a row-wise call can run: on the CPU, and counted in `u32`.
pub(crate) fn fits(io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
    let shape = io.input(0).shape;
    if on.backend != Backend::Cpu {
        Err(Decline("runs on the CPU"))
    } else if u32::try_from(shape.rows()).is_err() || u32::try_from(shape.last()).is_err() {
        Err(Decline("more than 4294967295 rows or columns"))
    } else {
        Ok(Cost::GOOD)
    }
}

/// The launches of a row-wise kernel over `args`, with the kernel's own parameters.
pub(crate) fn plan<K: RowKernel>(programs: &RowPrograms, io: &Io<'_>, args: &[Arg], params: &[u32]) -> Plan {
    let shape = io.input(0).shape;
    let (rows, k) = (shape.rows(), shape.last().max(1));
    let words = |per: usize| -> SmallVec<[u32; 16]> {
        let header: [u32; HEADER] = [k as u32, rows as u32, per as u32, stream::worthwhile(io)];
        header.into_iter().chain(params.iter().copied()).collect()
    };
    if k <= K::LONGEST {
        let per_tile = (TILE / k).max(1);
        let tiles = rows.div_ceil(per_tile);
        return Plan::launch(Program::Native(programs.whole), args, &words(per_tile), [tiles as u32, 1, 1]);
    }
    // Runs of nearly equal length, in whole vectors.
    let length = k.div_ceil(k.div_ceil(K::LONGEST)).next_multiple_of(64);
    let runs = k.div_ceil(length);
    let mut plan = Plan::default();
    let scratch = plan.scratch(rows * runs * size_of::<K::Partial>());
    let with = |access| -> SmallVec<[Arg; 6]> {
        args.iter().copied().chain([Arg::scratch(scratch, access)]).collect()
    };
    let (words, grid) = (words(length), [runs as u32, rows as u32, 1]);
    // The outputs are not touched before every run is reduced, so they may be the inputs here too.
    plan.push(Program::Native(programs.partial), &with(Access::Write), &words, grid);
    let grid = if K::WRITES_RUNS { grid } else { [1, rows as u32, 1] };
    plan.push(Program::Native(programs.finish), &with(Access::Read), &words, grid);
    plan
}
