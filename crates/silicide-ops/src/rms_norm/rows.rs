//! `rms_norm` row by row: squares are summed in a first pass, scaled values stored in a second. With a residual, the values
//! are those of the sum as stored.

use super::RmsNorm;
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlock, RowBlocks, RowFormula, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowPass, RowShader};

#[derive(Clone, Copy)]
struct RmsNormRow {
    eps: f32,
}

row_programs!(PROGRAMS, RmsNormRow, "rms_norm.rows.cpu", quantized);
pub(super) static CPU: CpuRows<RmsNorm> = CpuRows { name: "rms_norm.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader =
    RowShader::new("rms_norm", include_str!("rms_norm.wgsl"), &[RowPass::Sum("squares")]);
pub(super) static GPU: GpuRows<RmsNorm> = GpuRows { name: "rms_norm.rows.wgsl", shader: |_| &SHADER };

impl RowFormula for RmsNormRow {
    type Op = RmsNorm;
    /// The sum of squares.
    type Partial = f64;
    /// The factor of a row.
    type Row = f32;

    #[inline(always)]
    fn new([eps, _]: RowWords) -> RmsNormRow {
        RmsNormRow { eps }
    }

    #[inline(always)]
    fn combine(&self, x: &mut [f32], residual: &[f32]) {
        for (x, residual) in x.iter_mut().zip(residual) {
            *x += *residual;
        }
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> f64 {
        blocks.sum(|x| x * x)
    }

    #[inline(always)]
    fn finish(&self, partials: &[f64], span: RowSpan) -> f32 {
        let mean = partials.iter().sum::<f64>() / span.k as f64;
        (1.0 / (mean + f64::from(self.eps)).sqrt()) as f32
    }

    #[inline(always)]
    fn store<S: Simd>(&self, scale: &mut f32, block: RowBlock<'_>) {
        let [weights, _] = block.columns;
        if let Some(weights) = weights {
            for ((y, value), weight) in block.y.iter_mut().zip(block.values).zip(weights) {
                *y = *value * *scale * *weight;
            }
        } else {
            for (y, value) in block.y.iter_mut().zip(block.values) {
                *y = *value * *scale;
            }
        }
    }
}
