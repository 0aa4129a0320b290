//! Tiles of row-wise launches: the driver that reads blocks, calls a [`RowFormula`] and writes its results.
//!
//! All access to bindings is in [`RowTile`], whose constructor takes the promise of the launch. A block is read whole before
//! an output over it is written, so `y` may be `x`.

use super::super::RowOp;
use super::RowFormula;
use super::header::{INDEX, RowHeader, RowTensor};
use crate::cpu::element::{Float, Target, read_coded, size, view_coded};
use crate::cpu::{CHUNK, Simd, stream};
use crate::quantize_q8::{BoundRow, quantize_row};
use crate::rowwise::lanes::sum_of;
use silicide_gemm::isa::Task;
use silicide_hal::Tile;
use silicide_quant::{DType, bf16, f16};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The longest row that [`RowFormula::KEEPS`] keeps, in elements.
pub(super) const KEPT: usize = 8 << 10;

const F16: u32 = DType::F16.code();
const BF16: u32 = DType::BF16.code();

/// A span of a row: the whole row, or one of the parts that a long row is split in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSpan {
    /// Which row.
    pub(crate) row: usize,
    /// Elements of a row.
    pub(crate) k: usize,
    /// Which span of the row.
    pub(crate) index: usize,
    /// Its first column.
    pub(crate) start: usize,
    /// One past its last column.
    pub(crate) end: usize,
}

impl RowSpan {
    /// The columns of the block that begins at `column`.
    #[inline(always)]
    fn block(self, column: usize) -> Range<usize> {
        column..(column + CHUNK).min(self.end)
    }
}

/// The result of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowResult {
    /// A number, rounded to the type of `y`.
    F32(f32),
    /// An index; `y` is u32.
    Index(u32),
}

/// A block of a row, to be stored. All slices have the same length.
pub(crate) struct RowBlock<'b> {
    /// The values of the row, combined; or what the reduction kept of them.
    pub(crate) values: &'b [f32],
    /// Whether `values` are what [`RowBlocks::next_with_buffer`] kept.
    pub(crate) kept: bool,
    /// The inputs that have one element per column, in the order of the roles.
    pub(crate) columns: [Option<&'b [f32]>; 2],
    /// To be filled.
    pub(crate) y: &'b mut [f32],
}

/// Local arrays of a tile, made once and used for every block. Those that a formula has no use for are optimized away.
struct BlockBuffers {
    x: [f32; CHUNK],
    other: [f32; CHUNK],
    column: [f32; CHUNK],
    y: [f32; CHUNK],
}

impl BlockBuffers {
    #[inline(always)]
    fn new() -> BlockBuffers {
        BlockBuffers { x: [0.0; CHUNK], other: [0.0; CHUNK], column: [0.0; CHUNK], y: [0.0; CHUNK] }
    }
}

/// The first elements of a buffer, at most all.
#[inline(always)]
fn cut(buffer: &mut [f32; CHUNK], count: usize) -> &mut [f32] {
    &mut buffer[..count.min(CHUNK)]
}

/// A tile of a launch of formula `F`. Having one proves that the instruction set `S` is present and that bindings hold what
/// the header says.
struct RowTile<'t, S, F> {
    tile: &'t Tile<'t>,
    header: RowHeader,
    formula: F,
    isa: PhantomData<S>,
}

impl<'t, S: Simd, F: RowFormula> RowTile<'t, S, F> {
    /// # Safety
    /// The instruction set `S` is present. The bindings of `tile` have the bytes and types that
    /// [`RowHeader::binding_bytes`] states for its parameters; inputs are not written while the tile runs, except by itself,
    /// and nothing else touches the rows or spans of outputs that are this tile's.
    #[inline(always)]
    unsafe fn new(tile: &'t Tile<'t>) -> RowTile<'t, S, F> {
        let header = RowHeader::decode(tile.params);
        debug_assert!(
            header
                .binding_bytes(F::Op::ROLES.per_row)
                .is_some_and(|needs| needs.iter().enumerate().all(|(i, &need)| need <= tile.bytes(i)))
        );
        RowTile { tile, formula: F::new(header.words), header, isa: PhantomData }
    }

    /// The span of a split row that is this tile's; `None` past the end.
    #[inline(always)]
    fn span(&self) -> Option<RowSpan> {
        let RowHeader { k, rows, per, .. } = self.header;
        let [index, row, _] = self.tile.index.map(|i| i as usize);
        let start = index.checked_mul(per)?;
        (row < rows && start < k).then(|| RowSpan { row, k, index, start, end: k.min(start + per) })
    }

    /// Reads a block of the values that are reduced: `x`, or `x` combined with the other input. Combined values are computed
    /// again for each pass instead of read back, so that outputs may be either input.
    #[inline(always)]
    fn load<'b>(
        &self,
        span: RowSpan,
        columns: Range<usize>,
        x: &'b mut [f32; CHUNK],
        other_buffer: &mut [f32; CHUNK],
    ) -> &'b [f32]
    where
        't: 'b,
    {
        let RowHeader { k, rows, x: from, other, other_rows, combined, .. } = self.header;
        let (at, count) = (span.row * k + columns.start, columns.len());
        let x = cut(x, count);
        let Some(other) = other.filter(|_| F::Op::ROLES.other.is_some()) else {
            // SAFETY: `new`: `x` has rows * k elements, of which these are some: spans end at `k`, rows are below `rows`.
            // `store` writes this tile's outputs after the last use of the slice.
            return unsafe { view_coded::<S>(self.tile, from.binding, from.code, at, x) };
        };
        let row = if other_rows == rows { span.row } else { span.row % other_rows.max(1) };
        // SAFETY: `new`: `x` has rows * k elements and `other` other_rows * k; spans end at `k`. `combine` below is the last
        // use of the slice.
        let other = unsafe {
            read_coded::<S>(self.tile, from.binding, from.code, at, x);
            let other_at = row * k + columns.start;
            view_coded::<S>(self.tile, other.binding, other.code, other_at, cut(other_buffer, count))
        };
        self.formula.combine(x, other);
        if F::Op::ROLES.combined.is_some() && combined.is_some() {
            match from.code {
                F16 => self.round::<f16>(x),
                BF16 => self.round::<bf16>(x),
                _ => {}
            }
        }
        x
    }

    /// Rounds values to what they are once stored.
    #[inline(always)]
    fn round<T: Float>(&self, values: &mut [f32]) {
        let mut stored = [T::zeroed(); CHUNK];
        // SAFETY: `new`: the instruction set is present.
        let isa = unsafe { S::assume() };
        T::narrow(isa, values, &mut stored);
        T::widen(isa, &stored, values);
    }

    /// Reads a block of the input with one element per column that is number `i` of the roles.
    #[inline(always)]
    fn column<'b>(&self, i: usize, columns: &Range<usize>, buffer: &'b mut [f32; CHUNK]) -> Option<&'b [f32]>
    where
        't: 'b,
    {
        let from =
            self.header.columns.get(i).copied().flatten().filter(|_| F::Op::ROLES.columns.len() > i)?;
        let buffer = cut(buffer, columns.len());
        // SAFETY: `new`: it has `k` elements, where spans end. It is not an output: slots let outputs be `x` or `other` only.
        Some(unsafe { view_coded::<S>(self.tile, from.binding, from.code, columns.start, buffer) })
    }

    /// Prefetches the elements below a block in the next row to L2, so that memory is busy while this row is computed. For
    /// formulas that compute much per element.
    #[inline(always)]
    fn prefetch_below(&self, span: RowSpan, columns: &Range<usize>) {
        let RowHeader { k, rows, x, .. } = self.header;
        if span.row + 1 >= rows || span.end - span.start < k {
            return;
        }
        let below =
            self.tile.start(x.binding).wrapping_add(((span.row + 1) * k + columns.start) * size(x.code));
        for line in (0..columns.len() * size(x.code)).step_by(stream::LINE) {
            stream::fetch::<false>(below.wrapping_add(line));
        }
    }

    /// Returns zeros in the workspace for what is kept of a row; empty where the formula or the row's length allows none.
    #[inline(always)]
    fn kept(&self) -> &'t mut [f32] {
        if !F::KEEPS || self.header.k > KEPT {
            return &mut [];
        }
        // SAFETY: called once per tile, so this is the only reference into the workspace; cells need no initialization.
        let cells = unsafe { self.tile.workspace::<[MaybeUninit<f32>; KEPT]>().assume_init_mut() };
        let cells = &mut cells[..self.header.k];
        for cell in cells.iter_mut() {
            cell.write(0.0);
        }
        // SAFETY: the loop above initialized each of them.
        unsafe { cells.assume_init_mut() }
    }

    #[inline(always)]
    fn reduce(&self, buffers: &mut BlockBuffers, span: RowSpan, kept: &mut [f32]) -> F::Partial {
        self.formula.reduce::<S>(&mut RowBlocks { tile: self, span, column: span.start, buffers, kept })
    }

    /// Writes the outputs of a span.
    #[inline(always)]
    fn store(&self, buffers: &mut BlockBuffers, span: RowSpan, partials: &[F::Partial], kept: &[f32]) {
        let mut row = self.formula.finish(partials, span);
        if F::Op::ROLES.per_row {
            return self.write_result(span.row, self.formula.result(row));
        }
        let mut column = span.start;
        while column < span.end {
            let columns = span.block(column);
            let (at, count) = (span.row * self.header.k + column, columns.len());
            column = columns.end;
            let BlockBuffers { x, other, column: second, y } = &mut *buffers;
            let is_kept = F::KEEPS && !kept.is_empty();
            let values =
                if is_kept { &kept[columns.clone()] } else { self.load(span, columns.clone(), x, other) };
            let y = cut(y, count);
            // The buffer of `other` is free again: combined values are in that of `x`.
            let columns = [self.column(0, &columns, other), self.column(1, &columns, second)];
            self.formula.store::<S>(&mut row, RowBlock { values, kept: is_kept, columns, y });
            if let Some(combined) = self.header.combined.filter(|_| F::Op::ROLES.combined.is_some()) {
                self.write(combined, at, values);
            }
            self.write(self.header.y, at, y);
        }
    }

    /// Writes a block of an output, of which this tile has read what it will read.
    #[inline(always)]
    fn write(&self, to: RowTensor, at: usize, values: &[f32]) {
        let target = Target { binding: to.binding, code: to.code, streaming: self.header.streaming };
        // SAFETY: `new`: the output has rows * k elements, and these are of this tile's rows or span. Where the output is `x`
        // or `other`, `values` is in a local array by now: `store` computes `y` there, and `load` what is combined.
        unsafe { target.write::<S>(self.tile, at, values) };
    }

    #[inline(always)]
    fn write_result(&self, row: usize, result: RowResult) {
        let y = self.header.y;
        match result {
            RowResult::F32(value) => {
                let target = Target { binding: y.binding, code: y.code, streaming: false };
                // SAFETY: `new`: `y` has one element per row, and the row is this tile's.
                unsafe { target.write::<S>(self.tile, row, &[value]) };
            }
            RowResult::Index(index) => {
                if y.code != INDEX {
                    return;
                }
                // SAFETY: `new`: `y` has one element per row, of 4 bytes, and the row is this tile's.
                unsafe { self.tile.write::<u32>(y.binding, row..row + 1).fill(index) };
            }
        }
    }

    /// Ends the tile: stores past the caches become visible.
    #[inline(always)]
    fn end(&self) {
        if self.header.streaming && !F::Op::ROLES.per_row {
            stream::fence();
        }
    }
}

/// The blocks of a span in order, at most [`CHUNK`] elements each. A formula goes through them once per pass.
pub(crate) struct RowBlocks<'b, S, F> {
    tile: &'b RowTile<'b, S, F>,
    span: RowSpan,
    /// Where the next block begins.
    column: usize,
    buffers: &'b mut BlockBuffers,
    kept: &'b mut [f32],
}

impl<S: Simd, F: RowFormula> RowBlocks<'_, S, F> {
    /// Returns the next block of values.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Option<&[f32]> {
        let columns = self.advance()?;
        Some(self.tile.load(self.span, columns, &mut self.buffers.x, &mut self.buffers.other))
    }

    /// Returns the sum of `term(value)` over the values of all blocks.
    #[inline(always)]
    pub(crate) fn sum(&mut self, term: impl Fn(f32) -> f32) -> f64 {
        let mut sum = 0.0;
        while let Some(values) = self.next() {
            sum += sum_of(values, &term);
        }
        sum
    }

    /// Returns the next block, and prefetches the block below it in the next row.
    #[inline(always)]
    pub(crate) fn next_prefetching(&mut self) -> Option<&[f32]> {
        self.tile.prefetch_below(self.span, &self.span.block(self.column));
        self.next()
    }

    /// Returns the next block and room for as many values computed from it, which the store sees if the formula
    /// [keeps](RowFormula::KEEPS) them. Prefetches the block below in the next row.
    #[inline(always)]
    pub(crate) fn next_with_buffer(&mut self) -> Option<(&[f32], &mut [f32])> {
        let columns = self.advance()?;
        let BlockBuffers { x, other, y, .. } = &mut *self.buffers;
        self.tile.prefetch_below(self.span, &columns);
        let room = if self.kept.is_empty() { cut(y, columns.len()) } else { &mut self.kept[columns.clone()] };
        Some((self.tile.load(self.span, columns, x, other), room))
    }

    #[inline(always)]
    fn advance(&mut self) -> Option<Range<usize>> {
        let columns = self.span.block(self.column);
        self.column = columns.end;
        (!columns.is_empty()).then_some(columns)
    }

    /// Returns the first value of the span.
    #[inline(always)]
    pub(crate) fn first(&mut self) -> f32 {
        let columns = self.span.start..self.span.start + 1;
        let values = self.tile.load(self.span, columns, &mut self.buffers.x, &mut self.buffers.other);
        values.first().copied().unwrap_or(f32::NAN)
    }

    /// Returns the column where the next block begins.
    #[inline(always)]
    pub(crate) fn column(&self) -> usize {
        self.column
    }

    /// Returns the number of elements of the span.
    #[inline(always)]
    pub(crate) fn elements(&self) -> usize {
        self.span.end - self.span.start
    }

    /// Begins another pass.
    #[inline(always)]
    pub(crate) fn rewind(&mut self) {
        self.column = self.span.start;
    }
}

impl<S: Simd, F: RowFormula> Task for RowTile<'_, S, F> {
    type Output = ();

    /// Computes whole rows.
    #[inline(always)]
    fn run(self) {
        let RowHeader { k, rows, per, .. } = self.header;
        let first = (self.tile.index[0] as usize).saturating_mul(per).min(rows);
        let mut buffers = BlockBuffers::new();
        let kept = self.kept();
        for row in first..(first + per).min(rows) {
            let span = RowSpan { row, k, index: 0, start: 0, end: k };
            if F::PREFIX {
                self.store(&mut buffers, span, &[], kept);
            } else {
                let partial = self.reduce(&mut buffers, span, kept);
                self.store(&mut buffers, span, &[partial], kept);
            }
        }
        self.end();
    }
}

/// A tile of whole rows. Its code is a function of its own, which [`whole_quantized`] calls too.
///
/// # Safety
/// As for [`RowTile::new`].
#[inline(always)]
pub(crate) unsafe fn whole<S: Simd, F: RowFormula>(tile: &Tile<'_>) {
    // SAFETY: the CPU has `S`, and the launch is one of a row-wise kernel (`# Safety`).
    unsafe { S::assume().run(RowTile::<S, F>::new(tile)) };
}

/// A tile of whole rows, whose `y` is then quantized for a product. Quantized rows are the last binding; the last parameter is
/// their groups of 32.
///
/// # Safety
/// As for [`RowTile::new`]; `y` is f32, and the last binding has a quantized row for each row.
#[inline(always)]
pub(crate) unsafe fn whole_quantized<S: Simd, F: RowFormula>(tile: &Tile<'_>) {
    // SAFETY: the CPU has `S`, and the launch is one of a row-wise kernel with one more binding (`# Safety`).
    unsafe { whole::<S, F>(tile) };
    let RowHeader { rows, per, y, .. } = RowHeader::decode(tile.params);
    let groups = tile.params.last().map_or(0, |&groups| groups as usize);
    let first = (tile.index[0] as usize).saturating_mul(per).min(rows);
    for row in first..(first + per).min(rows) {
        let [from, to] = [y.binding, tile.bound() - 1].map(|binding| BoundRow { binding, row });
        // SAFETY: `whole` just wrote row `row` of `y`; only this tile touches it and the quantized row.
        unsafe { quantize_row(tile, from, to, groups) };
    }
}

/// A tile that reduces one span. Scratch memory is the last binding.
///
/// # Safety
/// As for [`RowTile::new`]; scratch memory has a partial result for each span of each row.
#[inline(always)]
pub(crate) unsafe fn partial<S: Simd, F: RowFormula>(tile: &Tile<'_>) {
    // SAFETY: the CPU has `S`, and the launch is one of a row-wise kernel with scratch memory (`# Safety`).
    let tile = unsafe { RowTile::<S, F>::new(tile) };
    let Some(span) = tile.span() else { return };
    let at = span.row * tile.header.spans() + span.index;
    let result = tile.reduce(&mut BlockBuffers::new(), span, &mut []);
    // SAFETY: `plan` made scratch memory of rows * spans partial results (`RowHeader::scratch_bytes`); this one is only
    // this tile's.
    unsafe { tile.tile.write::<F::Partial>(tile.tile.bound() - 1, at..at + 1).fill(result) };
}

/// A tile that stores one span, or the result of one row, from the partial results in scratch memory.
///
/// # Safety
/// As for [`RowTile::new`]; the launch before wrote the partial results.
#[inline(always)]
pub(crate) unsafe fn finish<S: Simd, F: RowFormula>(tile: &Tile<'_>) {
    // SAFETY: the CPU has `S`, and the launch is one of a row-wise kernel with scratch memory (`# Safety`).
    let tile = unsafe { RowTile::<S, F>::new(tile) };
    let Some(span) = tile.span() else { return };
    let spans = tile.header.spans();
    let range = span.row * spans..(span.row + 1) * spans;
    // SAFETY: `plan` made scratch memory of rows * spans partial results, the launch before (`partial`) wrote them all, and
    // this one only reads them.
    let partials = unsafe { tile.tile.read_part::<F::Partial>(tile.tile.bound() - 1, range) };
    tile.store(&mut BlockBuffers::new(), span, partials, &[]);
    tile.end();
}
