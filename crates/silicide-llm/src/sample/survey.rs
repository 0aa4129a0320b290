//! One scan over the logits: checks that all are numbers, and finds the maximum of each block. Later stages read only blocks that
//! can matter, so sampling costs about as much as reading the vocabulary.

use super::stages::Candidate;

/// Logits of a block.
const BLOCK: usize = 128;
/// Logits that are compared side by side.
const LANES: usize = 16;

/// The maximum of each block. Reused, so that a scan allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    highest: Vec<f32>,
    /// Scratch for sorting the maxima.
    ordered: Vec<f32>,
}

impl Survey {
    /// Scans `logits`. Returns whether all of them are numbers or -infinity.
    pub(super) fn look(&mut self, logits: &[f32]) -> bool {
        self.highest.clear();
        let mut sound = true;
        self.highest.extend(logits.chunks(BLOCK).map(|block| {
            let (highest, block_sound) = survey(block);
            sound &= block_sound;
            highest
        }));
        sound
    }

    /// Returns the index of the largest logit, the first of equals; `None` if all are -infinity.
    pub(super) fn likeliest(&self, logits: &[f32]) -> Option<u32> {
        let mut best: Option<(usize, f32)> = None;
        for (block, &highest) in self.highest.iter().enumerate() {
            if highest.is_finite() && best.is_none_or(|(_, best)| highest > best) {
                best = Some((block, highest));
            }
        }
        let (block, highest) = best?;
        let at = logits.chunks(BLOCK).nth(block)?.iter().position(|&logit| logit == highest)?;
        Some((block * BLOCK + at) as u32)
    }

    /// Writes candidates in token order: at least the `k` most likely tokens, and few others. All tokens if `k` is 0 or more
    /// than there are.
    pub(super) fn candidates(&mut self, logits: &[f32], k: usize, candidates: &mut Vec<Candidate>) {
        let least = self.reached_by(k);
        candidates.clear();
        for (block, (numbers, &highest)) in logits.chunks(BLOCK).zip(&self.highest).enumerate() {
            if highest >= least {
                let tokens = (block * BLOCK) as u32..;
                let all = tokens.zip(numbers).map(|(token, &logit)| Candidate { token, logit });
                candidates.extend(all.filter(|candidate| candidate.logit >= least));
            }
        }
    }

    /// Returns a lower bound that at least `k` logits reach, because the maxima of `k` blocks do. Returns -infinity if `k` is 0
    /// or more than the number of blocks.
    fn reached_by(&mut self, k: usize) -> f32 {
        if k == 0 || k > self.highest.len() {
            return f32::NEG_INFINITY;
        }
        self.ordered.clear();
        self.ordered.extend_from_slice(&self.highest);
        *self.ordered.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
    }
}

/// Returns the maximum of a block, and whether all logits are below +infinity. The compiler vectorizes the loop.
fn survey(block: &[f32]) -> (f32, bool) {
    let (mut highest, mut sound) = ([f32::NEG_INFINITY; LANES], [1u32; LANES]);
    let (chunks, rest) = block.as_chunks::<LANES>();
    let mut look = |numbers: &[f32]| {
        for ((highest, sound), &number) in highest.iter_mut().zip(&mut sound).zip(numbers) {
            *highest = if number > *highest { number } else { *highest };
            *sound &= u32::from(number < f32::INFINITY);
        }
    };
    for chunk in chunks {
        look(chunk);
    }
    look(rest);
    (highest.into_iter().fold(f32::NEG_INFINITY, f32::max), sound.iter().all(|&sound| sound == 1))
}

#[cfg(test)]
mod tests {
    use super::super::stages::top_k;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_that_matters_is_overlooked(
            logits in proptest::collection::vec(-20i8..20, 0..2000),
            k in 0usize..60,
        ) {
            // Few different numbers, so that many are equal; some are no candidates at all.
            let number = |n: i8| if n < -15 { f32::NEG_INFINITY } else { f32::from(n) / 4.0 };
            let logits: Vec<f32> = logits.into_iter().map(number).collect();
            let mut all: Vec<Candidate> =
                (0..).zip(&logits).map(|(token, &logit)| Candidate { token, logit }).collect();
            top_k(&mut all, k);
            let mut survey = Survey::default();
            prop_assert!(survey.look(&logits));
            let first = all.first().filter(|first| first.logit.is_finite()).map(|first| first.token);
            prop_assert_eq!(survey.likeliest(&logits), first);
            let mut few = Vec::new();
            survey.candidates(&logits, k, &mut few);
            top_k(&mut few, k);
            prop_assert_eq!(few, all);
        }

        #[test]
        fn one_bad_number_is_found(place in 0usize..700, bad in prop_oneof![Just(f32::NAN), Just(f32::INFINITY)]) {
            let mut logits = vec![1.5f32; 700];
            logits[place] = bad;
            prop_assert!(!Survey::default().look(&logits));
        }
    }
}
