//! The sampler chain. Equal logits and seeds choose equal tokens on every machine.

use super::SamplerOptions;
use super::stages::{Candidate, min_p, top_k, top_p, weights};
use super::survey::Survey;
use crate::error::{Error, Result};
use std::collections::{HashMap, VecDeque};

/// Samples tokens from logits, by a chain of stages: penalties, top-k, top-p, min-p, temperature.
///
/// ```
/// # mod silicide { pub use silicide_llm as llm; }
/// use silicide::llm::sample::{Sampler, SamplerOptions};
///
/// let mut sampler = Sampler::new(SamplerOptions::greedy())?;
/// assert_eq!(sampler.choose(&[0.1, 2.5, 0.3], 0)?, 1);
/// # Ok::<(), silicide::llm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    random: fastrand::Rng,
    /// The last tokens, oldest first.
    lately: VecDeque<u32>,
    /// Reused, so that sampling allocates nothing.
    candidates: Vec<Candidate>,
    survey: Survey,
}

impl Sampler {
    /// Checks `options` and returns a sampler.
    pub fn new(options: SamplerOptions) -> Result<Sampler> {
        options.check()?;
        let random = fastrand::Rng::with_seed(options.seed);
        let (lately, candidates, survey) = (VecDeque::new(), Vec::new(), Survey::default());
        Ok(Sampler { options, random, lately, candidates, survey })
    }

    /// Returns the options.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Adds a token of the text, for the penalties.
    pub fn accept(&mut self, token: u32) {
        if self.options.repeat_last == 0 {
            return;
        }
        if self.lately.len() >= self.options.repeat_last {
            self.lately.pop_front();
        }
        self.lately.push_back(token);
    }

    /// Samples a token from `logits`. `position` is for the error if they are not numbers.
    pub fn choose(&mut self, logits: &[f32], position: usize) -> Result<u32> {
        let options = &self.options;
        let penalised = self.penalties();
        let greedy = options.temperature == 0.0;
        // One NaN shows that a device or a file is defective.
        if !self.survey.look(logits) {
            return Err(Error::NotANumber { position });
        }
        if greedy && penalised.is_empty() {
            return self.survey.likeliest(logits).ok_or(Error::NotANumber { position });
        }
        // Penalties can move other tokens into the top k.
        let enough = if penalised.is_empty() { options.top_k } else { 0 };
        self.survey.candidates(logits, enough, &mut self.candidates);
        for (&token, &count) in &penalised {
            if let Some(candidate) = self.candidates.get_mut(token as usize) {
                candidate.logit = options.penalise(candidate.logit, count);
            }
        }
        top_k(&mut self.candidates, if greedy { 1 } else { options.top_k });
        let first = self.candidates.first().copied();
        let first = first.filter(|first| first.logit.is_finite()).ok_or(Error::NotANumber { position })?;
        if greedy {
            return Ok(first.token);
        }
        top_p(&mut self.candidates, options.top_p);
        min_p(&mut self.candidates, options.min_p);
        let weights = weights(&self.candidates, options.temperature);
        let mut left = self.random.f64() * weights.iter().sum::<f64>();
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        let drawn = drawn.and_then(|at| self.candidates.get(at)).unwrap_or(&first);
        Ok(drawn.token)
    }

    /// Returns how often each of the last tokens occurs; empty without penalties.
    fn penalties(&self) -> HashMap<u32, u32> {
        let mut counts = HashMap::new();
        if self.options.penalises() {
            self.lately.iter().for_each(|&token| *counts.entry(token).or_insert(0) += 1);
        }
        counts
    }
}

impl SamplerOptions {
    fn penalises(&self) -> bool {
        self.repeat_penalty != 1.0 || self.frequency_penalty != 0.0 || self.presence_penalty != 0.0
    }

    fn penalise(&self, logit: f32, count: u32) -> f32 {
        let scaled = if logit > 0.0 { logit / self.repeat_penalty } else { logit * self.repeat_penalty };
        scaled - count as f32 * self.frequency_penalty - self.presence_penalty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(change: impl FnOnce(&mut SamplerOptions)) -> Sampler {
        let mut options = SamplerOptions::default();
        change(&mut options);
        Sampler::new(options).unwrap()
    }

    #[test]
    fn greedy_takes_the_first_of_the_likeliest() {
        let mut greedy = Sampler::new(SamplerOptions::greedy()).unwrap();
        assert_eq!(greedy.choose(&[f32::NEG_INFINITY, 5.0, 5.0, 0.0], 0).unwrap(), 1);
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(matches!(greedy.choose(&[0.0, 5.0, bad], 3), Err(Error::NotANumber { position: 3 })));
        }
        assert!(matches!(greedy.choose(&[f32::NAN; 4], 7), Err(Error::NotANumber { position: 7 })));
        assert!(matches!(greedy.choose(&[], 7), Err(Error::NotANumber { .. })));
    }

    #[test]
    fn draws_follow_the_probabilities_and_the_seed() {
        let logits = [8f32, 4.0, 2.0, 2.0].map(f32::ln);
        let draw = |seed: u64| {
            let mut sampler = sampler(|options| {
                (options.seed, options.temperature, options.top_p, options.min_p) = (seed, 1.0, 1.0, 0.0);
            });
            (0..4000).map(|_| sampler.choose(&logits, 0).unwrap()).collect::<Vec<_>>()
        };
        let (first, again, other) = (draw(1), draw(1), draw(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        for (token, expected) in [(0, 0.5), (1, 0.25), (2, 0.125)] {
            let share = first.iter().filter(|&&drawn| drawn == token).count() as f64 / 4000.0;
            assert!((share - expected).abs() < 0.03, "{token}: {share}");
        }
    }

    #[test]
    fn a_low_temperature_sharpens_and_stages_narrow() {
        let logits = [3.0f32, 2.9, -1.0, -2.0];
        let mut cold = sampler(|options| options.temperature = 0.001);
        assert!((0..50).all(|_| cold.choose(&logits, 0).unwrap() == 0));
        let mut narrow = sampler(|options| options.top_k = 2);
        assert!((0..200).all(|_| narrow.choose(&logits, 0).unwrap() < 2));
    }

    #[test]
    fn repetition_is_punished_for_as_long_as_it_is_remembered() {
        let logits = [2.0f32, 1.9, -3.0];
        let mut sampler = sampler(|options| {
            (options.temperature, options.repeat_penalty, options.repeat_last) = (0.0, 1.5, 2);
        });
        assert_eq!(sampler.choose(&logits, 0).unwrap(), 0);
        sampler.accept(0);
        assert_eq!(sampler.choose(&logits, 0).unwrap(), 1);
        sampler.accept(2);
        sampler.accept(2);
        assert_eq!(sampler.choose(&logits, 0).unwrap(), 0);
    }

    #[test]
    fn options_without_meaning_are_refused() {
        for change in [
            |options: &mut SamplerOptions| options.temperature = -1.0,
            |options: &mut SamplerOptions| options.temperature = f32::NAN,
            |options: &mut SamplerOptions| options.top_p = 1.5,
            |options: &mut SamplerOptions| options.min_p = -0.1,
            |options: &mut SamplerOptions| options.repeat_penalty = 0.0,
        ] {
            let mut options = SamplerOptions::default();
            change(&mut options);
            assert!(matches!(Sampler::new(options), Err(Error::BadOption { .. })));
        }
    }
}
