//! A product of rounded rows and some columns of weights: panels are unpacked in the thread's workspace and multiplied there.
//!
//! This is what tiles of every op with integer products do, whatever rows and columns they take.

use super::format::{CODE_WORDS, Layout, MAX_RUNS, Part, Place};
use super::panel::{Block, VECTORS};
use super::quantize::Row;
use super::source::Columns;
use super::unit::Unit;
use crate::f32::vector::Vector;
use std::ops::Range;

/// The most words of a run in a panel, for each column.
const MAX_WORDS: usize = 12;

/// The most columns that are unpacked at a time.
pub const MAX_COLUMNS: usize = 128;

/// The most bytes of a column in a panel.
pub const COLUMN_BYTES: usize = 4 * MAX_WORDS * MAX_RUNS;

/// Workspace of a product: panels of up to 384 KiB, to stay in L2; or what the kernels for few rows stage, which is less.
#[repr(C, align(64))]
pub struct ProductWorkspace([f32; MAX_COLUMNS * MAX_WORDS * MAX_RUNS]);

/// Rows of activations and columns of weights. What a column holds is up to who unpacks it.
#[derive(Clone, Copy)]
pub struct Product {
    /// The first rounded row.
    pub a: *const u8,
    /// Rounded rows.
    pub rows: usize,
    /// Runs of a row, and of a column.
    pub runs: usize,
    /// All columns.
    pub weights: Columns,
    /// Columns that are unpacked at a time: whole panels, at most [`MAX_COLUMNS`].
    pub group: usize,
    /// Runs that are unpacked at a time: whole blocks, at most [`MAX_RUNS`].
    pub chunk: usize,
    /// The output of the first row and column.
    pub y: *mut f32,
    /// Outputs from one row to the next.
    pub y_stride: usize,
    /// Memory that this product alone uses. Its contents are unspecified.
    pub workspace: *mut ProductWorkspace,
}

impl Product {
    /// The workspace as memory for a `T`, which need not be initialised. Every call returns the same bytes.
    #[inline(always)]
    pub(super) fn staging<T>(&self) -> *mut T {
        const { assert!(size_of::<T>() <= size_of::<ProductWorkspace>()) };
        const { assert!(align_of::<T>() <= align_of::<ProductWorkspace>()) };
        self.workspace.cast()
    }

    /// Computes the outputs of some columns, which `unpack` unpacks to a layout.
    ///
    /// # Safety
    ///
    /// The unit's instruction set is present; rows, columns and outputs have the given extents, and columns up to the end of the range
    /// are at least as many as there are lanes; no other tile touches these outputs or the workspace; `unpack` writes what it is
    /// asked for.
    #[inline(always)]
    pub(super) unsafe fn multiply<U: Unit, F: Copy>(
        &self,
        range: Range<usize>,
        layout: Layout,
        unpack: unsafe fn(F, &Part),
        format: F,
    ) {
        const { assert!(MAX_COLUMNS.is_multiple_of(VECTORS * U::Floats::LANES)) };
        let (lanes, width) = (U::Floats::LANES, VECTORS * U::Floats::LANES);
        let panel = self.staging::<ProductWorkspace>().cast::<f32>();
        let a_stride = Row::of(self.runs).bytes;
        for column in range.clone().step_by(self.group) {
            let columns = self.group.min(range.end - column);
            for first in (0..self.runs).step_by(self.chunk) {
                let runs = self.chunk.min(self.runs - first);
                // SAFETY: the caller's promise. There is room for as many columns and runs, and what is multiplied was unpacked.
                unsafe {
                    for at in (0..columns).step_by(lanes) {
                        // A vector that is not whole begins earlier, with columns that are computed and not written.
                        let skipped = (column + at + lanes).saturating_sub(range.end);
                        let columns = self.weights.skip((column + at).saturating_sub(skipped));
                        let to = panel.add(at / width * width * layout.words() * runs + at % width);
                        let to = Place { to, width, words: layout.words(), before: CODE_WORDS };
                        let next = columns.start.wrapping_add(lanes * columns.stride);
                        unpack(format, &Part { columns, first, runs, to, next });
                    }
                    U::multiply(
                        layout,
                        &Block {
                            a: self.a,
                            a_runs: self.runs,
                            a_stride,
                            first,
                            runs,
                            panel,
                            y: self.y.wrapping_add(column),
                            y_stride: self.y_stride,
                            rows: self.rows,
                            columns,
                            accumulate: first > 0,
                        },
                    );
                }
            }
        }
    }
}
