//! `l2_norm` row by row: squares are summed in a first pass, scaled values stored in a second.

use super::L2Norm;
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlock, RowBlocks, RowFormula, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowPass, RowShader};

#[derive(Clone, Copy)]
struct L2NormRow {
    eps: f32,
}

row_programs!(PROGRAMS, L2NormRow, "l2_norm.rows.cpu");
pub(super) static CPU: CpuRows<L2Norm> = CpuRows { name: "l2_norm.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader =
    RowShader::new("l2_norm", include_str!("l2_norm.wgsl"), &[RowPass::Sum("squares")]);
pub(super) static GPU: GpuRows<L2Norm> = GpuRows { name: "l2_norm.rows.wgsl", shader: |_| &SHADER };

impl RowFormula for L2NormRow {
    type Op = L2Norm;
    /// The sum of squares.
    type Partial = f64;
    /// The factor of a row.
    type Row = f32;

    #[inline(always)]
    fn new([eps, _]: RowWords) -> L2NormRow {
        L2NormRow { eps }
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> f64 {
        blocks.sum(|x| x * x)
    }

    #[inline(always)]
    fn finish(&self, partials: &[f64], _span: RowSpan) -> f32 {
        let (norm, eps) = (partials.iter().sum::<f64>().sqrt(), f64::from(self.eps));
        // Not `max`, which would drop NaN.
        (1.0 / if norm < eps { eps } else { norm }) as f32
    }

    #[inline(always)]
    fn store<S: Simd>(&self, scale: &mut f32, block: RowBlock<'_>) {
        for (y, value) in block.y.iter_mut().zip(block.values) {
            *y = *value * *scale;
        }
    }
}
