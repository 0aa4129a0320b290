//! How tokens are chosen.

use super::unlimited;
use crate::error::Error;
use clap::Args;
use silicide_llm::sample::SamplerOptions;

/// A random seed; none for another each time.
#[derive(Clone, Copy, Debug)]
struct Seed(Option<u64>);

/// The flags of the sampler.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplerArgs {
    /// Random seed; the same seed makes the same text. -1: another each time [default: -1]
    #[arg(short, long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    #[arg(env = "SILICIDE_SEED", hide_env_values = true)]
    seed: Option<Seed>,
    /// Sampling temperature; 0 picks the most likely token
    #[arg(long, visible_alias = "temperature", default_value_t = 0.8, value_name = "T")]
    #[arg(allow_negative_numbers = true, env = "SILICIDE_TEMP", hide_env_values = true)]
    temp: f32,
    /// Keep the N most likely tokens; 0 keeps all
    #[arg(long, default_value_t = 40, value_name = "N", allow_negative_numbers = true)]
    top_k: i64,
    /// Keep the most likely tokens whose probabilities add up to P; 1 keeps all
    #[arg(long, default_value_t = 0.95, value_name = "P", allow_negative_numbers = true)]
    top_p: f32,
    /// Keep tokens at least P times as likely as the most likely one; 0 keeps all
    #[arg(long, default_value_t = 0.05, value_name = "P", allow_negative_numbers = true)]
    min_p: f32,
    /// Divide the logits of recent tokens by X; 1 does nothing
    #[arg(long, default_value_t = 1.0, value_name = "X", allow_negative_numbers = true)]
    repeat_penalty: f32,
    /// How many tokens count as recent for the penalties; -1: the whole context
    #[arg(long, default_value = "64", value_name = "N", value_parser = unlimited, allow_negative_numbers = true)]
    repeat_last_n: usize,
    /// Subtract X from a logit for each recent occurrence of its token
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    frequency_penalty: f32,
    /// Subtract X from the logits of recent tokens once
    #[arg(long, default_value_t = 0.0, value_name = "X", allow_negative_numbers = true)]
    presence_penalty: f32,
}

fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed(None)),
        text => {
            let number = text.parse().map_err(|_| "expected a number from 0 up, or -1 for another each time");
            Ok(Seed(Some(number?)))
        }
    }
}

impl SamplerArgs {
    /// Returns the options, checked.
    pub(crate) fn options(&self) -> Result<SamplerOptions, Error> {
        let mut options = SamplerOptions::default();
        options.seed = self.seed.and_then(|Seed(seed)| seed).unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |since| since.as_nanos() as u64)
        });
        options.temperature = self.temp;
        // All of them, as llama.cpp reads numbers below 1.
        options.top_k = usize::try_from(self.top_k).unwrap_or(0);
        options.top_p = self.top_p;
        options.min_p = self.min_p;
        options.repeat_penalty = self.repeat_penalty;
        options.repeat_last = self.repeat_last_n;
        options.frequency_penalty = self.frequency_penalty;
        options.presence_penalty = self.presence_penalty;
        options.check()?;
        Ok(options)
    }
}
