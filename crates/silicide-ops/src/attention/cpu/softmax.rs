//! The softmax of attention: scores of a block become weights, and blocks are folded.

use super::super::Attention;
use super::PAGE;
use crate::cpu::Simd;
use crate::cpu::math::{exp_down, tanh};
use silicide_gemm::f32::KEY_LANES;
use std::ops::Range;

/// The softmax of some keys: what weights are relative to, and their sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    /// The largest score; the lowest number if there is none, which lies below every score but -infinity.
    pub(super) largest: f32,
    /// The sum of `exp(score - largest)`.
    pub(super) sum: f32,
}

impl Softmax {
    /// That of no keys.
    pub(super) const NOTHING: Softmax = Softmax { largest: f32::MIN, sum: 0.0 };

    /// That of keys whose weights are unknown: results with it are NaN.
    pub(super) const NAN: Softmax = Softmax { largest: f32::MIN, sum: f32::NAN };

    /// Turns the scores of a block into weights, relative to the largest of them. Scores of keys that are not `visible` are replaced before
    /// anything is computed of them.
    ///
    /// ```text
    /// lane[i % 16] = the largest, then the sum, of keys i in order; the largest and the sum of 16 lanes by halves
    /// ```
    ///
    /// Sets of sixteen keys of which none is visible are not touched: they would add zeros.
    #[inline(always)]
    pub(super) fn weigh<S: Simd>(
        rule: &Attention,
        scores: &mut [f32; PAGE],
        visible: Range<usize>,
    ) -> Softmax {
        let first = visible.start / KEY_LANES;
        let sets = scores.as_chunks_mut::<KEY_LANES>().0;
        let sets = sets.get_mut(first..visible.end.div_ceil(KEY_LANES)).unwrap_or_default();
        let mut lanes = [f32::MIN; KEY_LANES];
        for (i, set) in sets.iter_mut().enumerate() {
            let offset = (first + i) * KEY_LANES;
            match rule.softcap {
                None => {
                    for score in set.iter_mut() {
                        *score *= rule.scale;
                    }
                }
                Some(cap) => {
                    let inner = rule.scale / cap;
                    for score in set.iter_mut() {
                        *score = cap * tanh::<S>(*score * inner);
                    }
                }
            }
            if offset < visible.start || offset + KEY_LANES > visible.end {
                let (first, end) = (visible.start as i32 - offset as i32, visible.end as i32 - offset as i32);
                let mut masked = *set;
                for (lane, score) in (0..KEY_LANES as i32).zip(&mut masked) {
                    let is_visible = (lane >= first) & (lane < end);
                    *score = if is_visible { *score } else { f32::NEG_INFINITY };
                }
                *set = masked;
            }
            // A loop of its own, so that it becomes vector code.
            for (score, largest) in set.iter().zip(&mut lanes) {
                *largest = if *score > *largest { *score } else { *largest };
            }
        }
        let largest = halve(lanes, |a, b| if b > a { b } else { a });
        let mut lanes = [0.0; KEY_LANES];
        for set in sets {
            for (score, sum) in set.iter_mut().zip(&mut lanes) {
                *score = exp_down::<S>(*score - largest);
                *sum += *score;
            }
        }
        Softmax { largest, sum: halve(lanes, |a, b| a + b) }
    }

    /// Folds `part` in. Returns the factors for the weighted values of `self` and of `part`.
    #[inline(always)]
    pub(super) fn fold<S: Simd>(&mut self, part: Softmax) -> [f32; 2] {
        let largest = if part.largest > self.largest { part.largest } else { self.largest };
        // Not by `map`: its closure would be compiled without the instruction set, and called.
        let (here, there) = (exp_down::<S>(self.largest - largest), exp_down::<S>(part.largest - largest));
        self.sum = S::mul_add(part.sum, there, self.sum * here);
        self.largest = largest;
        [here, there]
    }

    /// That of a sink: a score without a value.
    #[inline(always)]
    pub(super) fn of_sink<S: Simd>(sink: f32) -> Softmax {
        let largest = if sink < f32::MIN { f32::MIN } else { sink };
        Softmax { largest, sum: exp_down::<S>(sink - largest) }
    }

    /// Returns one over the sum of weights; 0 if that is 0.
    #[inline(always)]
    pub(super) fn share(&self) -> f32 {
        if self.sum == 0.0 { 0.0 } else { 1.0 / self.sum }
    }
}

/// All lanes to one, halving their number at each step.
#[inline(always)]
fn halve(mut lanes: [f32; KEY_LANES], pair: impl Fn(f32, f32) -> f32) -> f32 {
    for width in [8, 4, 2, 1] {
        let (low, high) = lanes.split_at_mut(width);
        for (low, high) in low.iter_mut().zip(high) {
            *low = pair(*low, *high);
        }
    }
    let [result, ..] = lanes;
    result
}
