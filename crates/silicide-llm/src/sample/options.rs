//! Options of sampling.

use crate::error::{Error, Result};

/// How tokens are sampled. Stages run in the order of the fields; each can be switched off.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_llm::{self as llm, Chat, Message, Model}; }
/// use silicide::llm::sample::SamplerOptions;
///
/// let options = SamplerOptions::default().top_k(20).temperature(0.6).seed(7);
/// assert!(options.check().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplerOptions {
    /// Divides positive logits of the last tokens, and multiplies negative ones; 1 is off.
    pub repeat_penalty: f32,
    /// Subtracted from a token's logit for each occurrence among the last tokens; 0 is off.
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of a token that occurs among the last tokens; 0 is off.
    pub presence_penalty: f32,
    /// The number of last tokens that penalties consider; 0 is off.
    pub repeat_last: usize,
    /// Keep this number of most likely tokens; 0 keeps all.
    pub top_k: usize,
    /// Keep the most likely tokens whose probabilities add up to this; 1 keeps all.
    pub top_p: f32,
    /// Keep tokens with at least this fraction of the highest probability; 0 is off.
    pub min_p: f32,
    /// The sampling temperature: logits are divided by it; 0 picks the most likely token.
    pub temperature: f32,
    /// The random seed; the same seed makes the same text.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            repeat_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last: 64,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            temperature: 0.8,
            seed: 0,
        }
    }
}

impl SamplerOptions {
    /// Sets the repetition penalty; 1 is off.
    pub fn repeat_penalty(mut self, penalty: f32) -> SamplerOptions {
        self.repeat_penalty = penalty;
        self
    }

    /// Sets the penalty per occurrence of a token; 0 is off.
    pub fn frequency_penalty(mut self, penalty: f32) -> SamplerOptions {
        self.frequency_penalty = penalty;
        self
    }

    /// Sets the penalty of tokens that occurred; 0 is off.
    pub fn presence_penalty(mut self, penalty: f32) -> SamplerOptions {
        self.presence_penalty = penalty;
        self
    }

    /// Sets how many of the last tokens the penalties consider; 0 is off.
    pub fn repeat_last(mut self, tokens: usize) -> SamplerOptions {
        self.repeat_last = tokens;
        self
    }

    /// Sets how many of the most likely tokens remain; 0 is off.
    pub fn top_k(mut self, count: usize) -> SamplerOptions {
        self.top_k = count;
        self
    }

    /// Sets the probability mass of the most likely tokens that remain; 1 is off.
    pub fn top_p(mut self, probability: f32) -> SamplerOptions {
        self.top_p = probability;
        self
    }

    /// Sets the least probability relative to the most likely token; 0 is off.
    pub fn min_p(mut self, fraction: f32) -> SamplerOptions {
        self.min_p = fraction;
        self
    }

    /// Sets the temperature; 0 picks the most likely token.
    pub fn temperature(mut self, temperature: f32) -> SamplerOptions {
        self.temperature = temperature;
        self
    }

    /// Sets the random seed; the same seed makes the same text.
    pub fn seed(mut self, seed: u64) -> SamplerOptions {
        self.seed = seed;
        self
    }
}

impl SamplerOptions {
    /// Returns options that always pick the most likely token.
    pub fn greedy() -> SamplerOptions {
        SamplerOptions { temperature: 0.0, ..SamplerOptions::default() }
    }

    /// Checks that all options are in range.
    pub fn check(&self) -> Result<()> {
        let refuse = |option: &'static str, expected: &str, got: f32| {
            Err(Error::BadOption { option, expected: expected.to_owned(), got: got.to_string() })
        };
        let finite = |value: f32| value.is_finite();
        match *self {
            SamplerOptions { repeat_penalty: p, .. } if !(finite(p) && p > 0.0) => {
                refuse("repeat-penalty", "a number above 0", p)
            }
            SamplerOptions { frequency_penalty: p, .. } if !finite(p) => {
                refuse("frequency-penalty", "a number", p)
            }
            SamplerOptions { presence_penalty: p, .. } if !finite(p) => {
                refuse("presence-penalty", "a number", p)
            }
            SamplerOptions { top_p: p, .. } if !(0.0..=1.0).contains(&p) => {
                refuse("top-p", "a number from 0 to 1", p)
            }
            SamplerOptions { min_p: p, .. } if !(0.0..=1.0).contains(&p) => {
                refuse("min-p", "a number from 0 to 1", p)
            }
            SamplerOptions { temperature: t, .. } if !(finite(t) && t >= 0.0) => {
                refuse("temp", "a number from 0 up", t)
            }
            _ => Ok(()),
        }
    }
}
