//! The online softmax of one query: scores of a block of keys become weights relative to the largest score so far.

use super::super::Attention;
use crate::cpu::math::{exp_down, tanh};
use crate::cpu::{Portable, Simd};
use crate::rowwise::lanes::{largest_of, sum_of};
use std::ops::Range;

/// The state of a query's online softmax.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The largest score; the lowest number before there is one, which lies below every score but -infinity.
    pub(super) largest: f32,
    /// The sum of `exp(score - largest)`.
    pub(super) sum: f64,
}

impl Seen {
    pub(super) const NOTHING: Seen = Seen { largest: f32::MIN, sum: 0.0 };

    /// Adds a block of scores: the visible ones become weights, the others 0. Returns the factor for the sums of earlier
    /// values.
    #[inline(always)]
    pub(super) fn weigh<S: Simd>(
        &mut self,
        rule: &Attention,
        scores: &mut [f32],
        visible: Range<usize>,
    ) -> f32 {
        let end = visible.end.min(scores.len());
        let (rest, hidden) = scores.split_at_mut(end);
        let (before, scores) = rest.split_at_mut(visible.start.min(end));
        before.fill(0.0);
        hidden.fill(0.0);
        let scale = rule.scale;
        match rule.softcap {
            None => scores.iter_mut().for_each(|score| *score *= scale),
            Some(cap) => {
                let inner = scale / cap;
                scores.iter_mut().for_each(|score| *score = cap * tanh::<S>(*score * inner));
            }
        }
        let largest = largest_of(scores, |score| score, self.largest);
        let kept = exp_down::<Portable>(self.largest - largest);
        scores.iter_mut().for_each(|score| *score = exp_down::<S>(*score - largest));
        self.sum = self.sum * f64::from(kept) + sum_of(scores, |weight| weight);
        self.largest = largest;
        kept
    }

    /// Adds the state `other`. Returns the factors for the sums of values of `self` and of `other`.
    #[inline(always)]
    pub(super) fn join(&mut self, other: Seen) -> [f32; 2] {
        let largest = if other.largest > self.largest { other.largest } else { self.largest };
        let factors = [self.largest, other.largest].map(|own| exp_down::<Portable>(own - largest));
        self.sum = self.sum * f64::from(factors[0]) + other.sum * f64::from(factors[1]);
        self.largest = largest;
        factors
    }

    /// A sink: a score without a value.
    #[inline(always)]
    pub(super) fn of_sink(sink: f32) -> Seen {
        let largest = if sink < f32::MIN { f32::MIN } else { sink };
        Seen { largest, sum: f64::from(exp_down::<Portable>(sink - largest)) }
    }

    /// Returns one over the sum of weights; 0 if that is 0.
    #[inline(always)]
    pub(super) fn share(&self) -> f32 {
        if self.sum == 0.0 { 0.0 } else { (1.0 / self.sum) as f32 }
    }
}
