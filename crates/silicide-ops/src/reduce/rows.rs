//! `reduce` row by row: one pass.

use super::{Reduce, Reduction};
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlocks, RowFormula, RowResult, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowPass, RowShader};
use crate::rowwise::lanes::{largest_key, value_of};

#[derive(Clone, Copy)]
struct SumRow;

#[derive(Clone, Copy)]
struct MaxRow;

row_programs!(SUM, SumRow, "reduce.sum.cpu");
row_programs!(MAX, MaxRow, "reduce.max.cpu");
pub(super) static CPU: CpuRows<Reduce> = CpuRows {
    name: "reduce.rows.cpu",
    programs: |op| match op.reduction {
        Reduction::Sum => &SUM,
        Reduction::Max => &MAX,
    },
};

static SUM_SHADER: RowShader =
    RowShader::new("reduce.sum", include_str!("sum.wgsl"), &[RowPass::Sum("value")]);
static MAX_SHADER: RowShader =
    RowShader::new("reduce.max", include_str!("max.wgsl"), &[RowPass::Max("value")]);
pub(super) static GPU: GpuRows<Reduce> = GpuRows {
    name: "reduce.rows.wgsl",
    shader: |op| match op.reduction {
        Reduction::Sum => &SUM_SHADER,
        Reduction::Max => &MAX_SHADER,
    },
};

impl RowFormula for SumRow {
    type Op = Reduce;
    type Partial = f64;
    type Row = f64;

    #[inline(always)]
    fn new(_words: RowWords) -> SumRow {
        SumRow
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> f64 {
        blocks.sum(|x| x)
    }

    #[inline(always)]
    fn finish(&self, partials: &[f64], _span: RowSpan) -> f64 {
        partials.iter().sum()
    }

    #[inline(always)]
    fn result(&self, sum: f64) -> RowResult {
        RowResult::F32(sum as f32)
    }
}

impl RowFormula for MaxRow {
    type Op = Reduce;
    /// The largest [`key`](crate::rowwise::lanes::key).
    type Partial = i32;
    type Row = i32;

    #[inline(always)]
    fn new(_words: RowWords) -> MaxRow {
        MaxRow
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> i32 {
        let mut best = i32::MIN;
        while let Some(values) = blocks.next() {
            best = best.max(largest_key(values));
        }
        best
    }

    #[inline(always)]
    fn finish(&self, partials: &[i32], _span: RowSpan) -> i32 {
        partials.iter().copied().fold(i32::MIN, i32::max)
    }

    #[inline(always)]
    fn result(&self, best: i32) -> RowResult {
        RowResult::F32(value_of(best))
    }
}
