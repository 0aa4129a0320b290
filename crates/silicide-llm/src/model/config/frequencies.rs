//! The scaling of RoPE frequencies, so that a model reaches further than the context that it was trained on.

use super::RopeConfig;
use silicide_ops::rope::{Frequencies, FrequencyError};
use std::f64::consts::TAU;

/// The scaling of RoPE frequencies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// None.
    #[default]
    None,
    /// All frequencies are divided by `factor`.
    Linear {
        /// The factor of the context length.
        factor: f64,
    },
    /// Low frequencies are divided by `factor`, high ones are kept, those between are interpolated.
    Llama3 {
        /// The factor of the context length.
        factor: f64,
        /// Pairs with fewer turns than this over the original length are divided.
        low: f64,
        /// Pairs with more turns than this are kept.
        high: f64,
        /// The original context length, in positions.
        original: f64,
    },
    /// Like [`RopeScaling::Llama3`], but interpolated by the index of a pair rather than by its frequency, and with a factor of
    /// cosines and sines.
    Yarn {
        /// The factor of the context length.
        factor: f64,
        /// The original context length, in positions.
        original: f64,
        /// Pairs with more turns than this over the original length are kept; usually 32.
        beta_fast: f64,
        /// Pairs with fewer turns than this are divided; usually 1.
        beta_slow: f64,
        /// The factor of cosines and sines; `None`: [`RopeScaling::usual_attention_factor`].
        attention_factor: Option<f64>,
    },
}

impl RopeScaling {
    /// Returns YaRN's factor of cosines and sines: `1 + 0.1 ln factor`, and never less than 1.
    pub fn usual_attention_factor(factor: f64) -> f64 {
        1.0 + 0.1 * factor.max(1.0).ln()
    }
}

impl RopeConfig {
    /// Returns the frequencies of each pair. `factors`, one for each pair, divide them before they are scaled.
    pub fn frequencies(&self, factors: Option<&[f32]>) -> Result<Frequencies, FrequencyError> {
        let plain = Frequencies::new(self.base, self.rotated, factors)?;
        let positive = FrequencyError::check;
        match self.scaling {
            RopeScaling::None => Ok(plain),
            RopeScaling::Linear { factor } => {
                positive("the scaling factor", factor)?;
                plain.map(|_, frequency| frequency / factor)
            }
            RopeScaling::Llama3 { factor, low, high, original } => {
                positive("the scaling factor", factor)?;
                positive("the original length", original)?;
                positive("the distance of the low and high frequency factors", high - low)?;
                plain.map(|_, frequency| {
                    let turns = original * frequency / TAU;
                    mixed(frequency, factor, ((turns - low) / (high - low)).clamp(0.0, 1.0))
                })
            }
            RopeScaling::Yarn { factor, original, beta_fast, beta_slow, attention_factor } => {
                positive("the scaling factor", factor)?;
                positive("the original length", original)?;
                positive("beta_fast", beta_fast)?;
                positive("beta_slow", beta_slow)?;
                let log_base = positive("the logarithm of the base", self.base.ln())?;
                let rotated = self.rotated as f64;
                // The pair with `turns` turns over the original length.
                let pair = |turns: f64| rotated * (original / (turns * TAU)).ln() / (2.0 * log_base);
                let first = pair(beta_fast).floor().max(0.0);
                let last = pair(beta_slow).ceil().min(rotated - 1.0);
                let scaled = plain.map(|i, frequency| {
                    // A ramp without length would divide by zero.
                    let divided = (i as f64 - first) / (last - first).max(0.001);
                    mixed(frequency, factor, 1.0 - divided.clamp(0.0, 1.0))
                })?;
                let usual = || RopeScaling::usual_attention_factor(factor);
                scaled.with_magnitude(attention_factor.unwrap_or_else(usual))
            }
        }
    }
}

/// Returns a frequency of which the part `kept` is kept and the rest divided by `factor`.
fn mixed(frequency: f64, factor: f64, kept: f64) -> f64 {
    frequency * kept + frequency / factor * (1.0 - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, not {expected}");
    }

    fn scaled(scaling: RopeScaling, base: f64, rotated: usize) -> Frequencies {
        RopeConfig { base, rotated, scaling }.frequencies(None).unwrap()
    }

    fn all(scaling: RopeScaling, base: f64, rotated: usize) -> Vec<f64> {
        let frequencies = scaled(scaling, base, rotated);
        (0..rotated / 2).map(|i| frequencies.frequency(i).unwrap()).collect()
    }

    #[test]
    fn linear_scaling_divides_all_frequencies() {
        for (i, got) in all(RopeScaling::Linear { factor: 4.0 }, 10_000.0, 8).into_iter().enumerate() {
            near(got, 0.25 * 10f64.powi(-(i as i32)));
        }
    }

    #[test]
    fn llama3_keeps_high_frequencies_and_divides_low_ones() {
        // Frequencies 1, 0.1, 0.01, 0.001 over TAU * 1000 positions: 1000, 100, 10 and 1 turns.
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 5.0, high: 20.0, original: TAU * 1000.0 };
        let got = all(scaling, 10_000.0, 8);
        // 10 turns are a third of the way from 5 to 20.
        let third = 0.01 * (1.0 / 3.0) + 0.01 / 8.0 * (2.0 / 3.0);
        for (got, expected) in got.into_iter().zip([1.0, 0.1, third, 0.001 / 8.0]) {
            near(got, expected);
        }
    }

    #[test]
    fn yarn_ramps_between_whole_pairs() {
        let scaling = |attention_factor| RopeScaling::Yarn {
            factor: 32.0,
            original: TAU * 1000.0,
            // Pairs 0.9 and 3.5 of 5: the ramp is from 0 to 4.
            beta_fast: 10f64.powf(3.0 - 0.9),
            beta_slow: 10f64.powf(3.0 - 3.5),
            attention_factor,
        };
        let got = all(scaling(None), 100_000.0, 10);
        for (i, got) in got.into_iter().enumerate() {
            let divided = i as f64 / 4.0;
            near(got, 10f64.powi(-(i as i32)) * ((1.0 - divided) + divided / 32.0));
        }
        let magnitude = |given| scaled(scaling(given), 100_000.0, 10).magnitude();
        near(magnitude(None), 1.0 + 0.1 * 32f64.ln());
        near(magnitude(Some(1.25)), 1.25);
        // A factor below 1 reaches no further.
        near(RopeScaling::usual_attention_factor(0.5), 1.0);
    }

    #[test]
    fn a_factor_of_zero_is_refused() {
        let rope = RopeConfig { scaling: RopeScaling::Linear { factor: 0.0 }, ..RopeConfig::new(1e4, 8) };
        assert!(rope.frequencies(None).is_err());
    }
}
