//! `layer_norm` row by row: the mean in a first pass, the squares about it in a second, the result in a third.

use super::LayerNorm;
use crate::cpu::Simd;
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlock, RowBlocks, RowFormula, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowPass, RowShader};
use crate::rowwise::lanes::sum_of;

#[derive(Clone, Copy)]
struct LayerNormRow {
    eps: f32,
}

row_programs!(PROGRAMS, LayerNormRow, "layer_norm.rows.cpu");
pub(super) static CPU: CpuRows<LayerNorm> = CpuRows { name: "layer_norm.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader = RowShader::new(
    "layer_norm",
    include_str!("layer_norm.wgsl"),
    &[RowPass::Sum("offset"), RowPass::Sum("squares")],
);
pub(super) static GPU: GpuRows<LayerNorm> = GpuRows { name: "layer_norm.rows.wgsl", shader: |_| &SHADER };

/// Count, mean, and sum of squares about the mean.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Returns the moments of both spans together.
    #[inline(always)]
    fn with(self, other: Moments) -> Moments {
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        Moments {
            count,
            mean: self.mean + apart * other.count / count,
            squares: self.squares + other.squares + apart * apart * self.count * other.count / count,
        }
    }

    /// Returns the mean in two parts, so that subtracting it from f32 values near it loses nothing.
    #[inline(always)]
    fn split_mean(self) -> [f32; 2] {
        let high = self.mean as f32;
        [high, (self.mean - f64::from(high)) as f32]
    }
}

/// The mean of a row and its scale.
struct Normaliser {
    mean: [f32; 2],
    scale: f32,
}

impl RowFormula for LayerNormRow {
    type Op = LayerNorm;
    type Partial = Moments;
    type Row = Normaliser;

    #[inline(always)]
    fn new([eps, _]: RowWords) -> LayerNormRow {
        LayerNormRow { eps }
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> Moments {
        // About the first element, so that an offset common to the row does not drown its spread.
        let centre = blocks.first();
        let mut sum = 0.0;
        while let Some(values) = blocks.next() {
            sum += sum_of(values, |x| x - centre);
        }
        let count = blocks.elements() as f64;
        let mut moments = Moments { count, mean: f64::from(centre) + sum / count, squares: 0.0 };
        let [high, low] = moments.split_mean();
        blocks.rewind();
        while let Some(values) = blocks.next_prefetching() {
            moments.squares += sum_of(values, |x| ((x - high) - low) * ((x - high) - low));
        }
        moments
    }

    #[inline(always)]
    fn finish(&self, partials: &[Moments], _span: RowSpan) -> Normaliser {
        let none = Moments { count: 0.0, mean: f64::NAN, squares: f64::NAN };
        let moments = partials.iter().copied().reduce(Moments::with).unwrap_or(none);
        let variance = moments.squares / moments.count;
        let scale = (1.0 / (variance + f64::from(self.eps)).sqrt()) as f32;
        Normaliser { mean: moments.split_mean(), scale }
    }

    #[inline(always)]
    fn store<S: Simd>(&self, row: &mut Normaliser, block: RowBlock<'_>) {
        let Normaliser { mean: [high, low], scale } = *row;
        for (y, value) in block.y.iter_mut().zip(block.values) {
            *y = ((*value - high) - low) * scale;
        }
        let [weights, biases] = block.columns;
        for (y, weight) in block.y.iter_mut().zip(weights.unwrap_or_default()) {
            *y *= *weight;
        }
        for (y, bias) in block.y.iter_mut().zip(biases.unwrap_or_default()) {
            *y += *bias;
        }
    }
}
