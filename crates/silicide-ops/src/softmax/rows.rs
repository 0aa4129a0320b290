//! `softmax` row by row: the maximum in a first pass, exponentials and their sum in a second, weights stored in a third.
//! Exponentials of rows that fit are kept for the third pass, those of longer rows computed again.

use super::Softmax;
use crate::cpu::math::exp_down;
use crate::cpu::{Portable, Simd};
use crate::rowwise::RowWords;
use crate::rowwise::cpu::{CpuRows, RowBlock, RowBlocks, RowFormula, RowSpan, row_programs};
use crate::rowwise::gpu::{GpuRows, RowPass, RowShader};
use crate::rowwise::lanes::{largest_of, sum_of};

#[derive(Clone, Copy)]
struct SoftmaxRow {
    /// Multiplied to `x` before a mask is added.
    scale: f32,
    /// Multiplied to loaded values: 1 with a mask, as it has been combined; otherwise `scale`.
    unmasked: f32,
}

row_programs!(PROGRAMS, SoftmaxRow, "softmax.rows.cpu");
pub(super) static CPU: CpuRows<Softmax> = CpuRows { name: "softmax.rows.cpu", programs: |_| &PROGRAMS };

static SHADER: RowShader = RowShader::new(
    "softmax",
    include_str!("softmax.wgsl"),
    &[RowPass::Max("logit"), RowPass::Sum("exponential")],
);
pub(super) static GPU: GpuRows<Softmax> = GpuRows { name: "softmax.rows.wgsl", shader: |_| &SHADER };

/// The largest logit of a span, and the sum of `exp(logit - largest)`.
#[derive(Clone, Copy, Debug)]
struct ExpSum {
    largest: f32,
    sum: f64,
}

impl ExpSum {
    /// Of nothing. The lowest number lies below every logit but -infinity, whose exponentials it makes 0.
    const NONE: ExpSum = ExpSum { largest: f32::MIN, sum: 0.0 };

    /// Returns the sum of both spans together.
    #[inline(always)]
    fn with(self, other: ExpSum) -> ExpSum {
        let largest = if other.largest > self.largest { other.largest } else { self.largest };
        // One value, so the instruction set does not matter.
        let scaled = |part: ExpSum| part.sum * f64::from(exp_down::<Portable>(part.largest - largest));
        ExpSum { largest, sum: scaled(self) + scaled(other) }
    }
}

/// Turns logits into weights: `exp(logit - largest) * share`.
struct SoftmaxShare {
    largest: f32,
    share: f32,
}

impl RowFormula for SoftmaxRow {
    type Op = Softmax;
    type Partial = ExpSum;
    type Row = SoftmaxShare;
    const KEEPS: bool = true;

    #[inline(always)]
    fn new([scale, unmasked]: RowWords) -> SoftmaxRow {
        SoftmaxRow { scale, unmasked }
    }

    #[inline(always)]
    fn combine(&self, x: &mut [f32], mask: &[f32]) {
        for (x, mask) in x.iter_mut().zip(mask) {
            *x = *x * self.scale + *mask;
        }
    }

    #[inline(always)]
    fn reduce<S: Simd>(&self, blocks: &mut RowBlocks<'_, S, Self>) -> ExpSum {
        let (scale, mut largest, mut sum) = (self.unmasked, f32::MIN, 0.0);
        while let Some(values) = blocks.next() {
            largest = largest_of(values, |x| x * scale, largest);
        }
        blocks.rewind();
        while let Some((values, exponentials)) = blocks.next_with_buffer() {
            for (exponential, value) in exponentials.iter_mut().zip(values) {
                *exponential = exp_down::<S>(*value * scale - largest);
            }
            sum += sum_of(exponentials, |x| x);
        }
        ExpSum { largest, sum }
    }

    #[inline(always)]
    fn finish(&self, partials: &[ExpSum], _span: RowSpan) -> SoftmaxShare {
        let ExpSum { largest, sum } = partials.iter().copied().reduce(ExpSum::with).unwrap_or(ExpSum::NONE);
        SoftmaxShare { largest, share: if sum == 0.0 { 0.0 } else { (1.0 / sum) as f32 } }
    }

    #[inline(always)]
    fn store<S: Simd>(&self, row: &mut SoftmaxShare, block: RowBlock<'_>) {
        let SoftmaxShare { largest, share } = *row;
        if block.kept {
            for (y, exponential) in block.y.iter_mut().zip(block.values) {
                *y = *exponential * share;
            }
        } else {
            for (y, value) in block.y.iter_mut().zip(block.values) {
                *y = exp_down::<S>(*value * self.unmasked - largest) * share;
            }
        }
    }
}
