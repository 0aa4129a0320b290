//! `argmax` row by row: the largest key of each block, and its position where it is a new best.

use super::Argmax;
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlocks, RowFormula, RowResult, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowShader};
use crate::rowwise::lanes::{key, largest_key};

#[derive(Clone, Copy)]
struct ArgmaxRow;

row_programs!(PROGRAMS, ArgmaxRow, "argmax.rows.cpu");
pub(super) static CPU: CpuRows<Argmax> = CpuRows { name: "argmax.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader =
    RowShader::new("argmax", concat!(include_str!("../wgsl/order.wgsl"), include_str!("argmax.wgsl")), &[]);
pub(super) static GPU: GpuRows<Argmax> = GpuRows { name: "argmax.rows.wgsl", shader: |_| &SHADER };

/// The best element of a span.
#[derive(Clone, Copy, Debug)]
struct BestElement {
    /// See [`key`].
    key: i32,
    column: u32,
}

impl BestElement {
    /// Returns the better of both, the first of equals.
    #[inline(always)]
    fn or(self, later: BestElement) -> BestElement {
        if later.key > self.key { later } else { self }
    }
}

impl RowFormula for ArgmaxRow {
    type Op = Argmax;
    type Partial = BestElement;
    /// The index.
    type Row = u32;

    #[inline(always)]
    fn new(_words: RowWords) -> ArgmaxRow {
        ArgmaxRow
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> BestElement {
        let mut start = blocks.column();
        // Every key is greater than this one.
        let mut best = BestElement { key: i32::MIN, column: start as u32 };
        while let Some(values) = blocks.next() {
            let found = largest_key(values);
            if found > best.key {
                let position = values.iter().position(|&value| key(value) == found).unwrap_or(0);
                best = BestElement { key: found, column: (start + position) as u32 };
            }
            start += values.len();
        }
        best
    }

    #[inline(always)]
    fn finish(&self, partials: &[BestElement], _span: RowSpan) -> u32 {
        partials.iter().copied().reduce(BestElement::or).map_or(0, |best| best.column)
    }

    #[inline(always)]
    fn result(&self, index: u32) -> RowResult {
        RowResult::Index(index)
    }
}
