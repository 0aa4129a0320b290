//! Angles of rotary position embeddings, computed on the host in f64: exact at any position, and nothing a device could
//! get wrong.
//!
//! Pair `i` of `rotated / 2` turns by `position * frequency(i)`, where `frequency(i)` is `base^(-2 i / rotated)`, divided by
//! the pair's own factor if there is one, and then scaled to reach further than the model was trained ([`RopeScaling`]).

use std::f64::consts::TAU;

/// How frequencies are changed so that a model reaches further than it was trained.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    None,
    /// Every position counts for `1 / factor`.
    Linear {
        /// How much further to reach.
        factor: f64,
    },
    /// Slow pairs are slowed by `factor`, fast ones are not, those between are in part.
    Llama3 {
        /// How much further to reach.
        factor: f64,
        /// Pairs that turn less often than this over the original length are slowed.
        low: f64,
        /// Pairs that turn more often than this are not.
        high: f64,
        /// The length, in positions, that the model was trained on.
        original: f64,
    },
    /// Like [`RopeScaling::Llama3`], but between pairs, counted, rather than frequencies; and values grow a little.
    Yarn {
        /// How much further to reach.
        factor: f64,
        /// The length, in positions, that the model was trained on.
        original: f64,
        /// Pairs that turn more often than this over the original length keep their frequency; usually 32.
        beta_fast: f64,
        /// Pairs that turn less often than this are slowed; usually 1.
        beta_slow: f64,
        /// The factor of cosines and sines; [`RopeScaling::usual_attention_factor`] where none is given.
        attention_factor: Option<f64>,
    },
}

impl RopeScaling {
    /// Returns YaRN's factor of cosines and sines: `1 + 0.1 ln factor`, and never less than 1.
    pub fn usual_attention_factor(factor: f64) -> f64 {
        1.0 + 0.1 * factor.max(1.0).ln()
    }
}

/// Why there are no such frequencies.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FrequencyError {
    /// Elements that make no pairs.
    #[error("rope turns pairs, so an even number of elements above 0, got {0}")]
    Rotated(usize),
    /// A number that must be finite and positive.
    #[error("rope: {what} must be finite and above 0, got {got}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// What it is.
        got: f64,
    },
    /// Factors for another number of pairs.
    #[error("rope has {pairs} pairs, got {got} frequency factors")]
    Factors {
        /// Pairs that there are.
        pairs: usize,
        /// Factors given.
        got: usize,
    },
}

/// The frequency of each pair, and what cosines and sines are multiplied by.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    inverse: Vec<f64>,
    magnitude: f64,
}

impl Frequencies {
    /// Frequencies for heads of which `rotated` elements are turned. Where there are `factors`, one for each pair, the
    /// frequency of a pair is divided by its factor before it is scaled.
    pub fn new(
        scaling: RopeScaling,
        base: f64,
        rotated: usize,
        factors: Option<&[f32]>,
    ) -> Result<Frequencies, FrequencyError> {
        if rotated == 0 || !rotated.is_multiple_of(2) {
            return Err(FrequencyError::Rotated(rotated));
        }
        positive("the base", base)?;
        let pairs = rotated / 2;
        let mut inverse: Vec<f64> = (0..pairs).map(|i| base.powf(-2.0 * i as f64 / rotated as f64)).collect();
        if let Some(factors) = factors {
            if factors.len() != pairs {
                return Err(FrequencyError::Factors { pairs, got: factors.len() });
            }
            for (inverse, &factor) in inverse.iter_mut().zip(factors) {
                *inverse /= positive("a frequency factor", f64::from(factor))?;
            }
        }
        let magnitude = scale(&mut inverse, scaling, base)?;
        Ok(Frequencies { inverse, magnitude })
    }

    /// The number of pairs.
    pub fn pairs(&self) -> usize {
        self.inverse.len()
    }

    /// The angle of pair `i` from one position to the next, in radians.
    pub fn frequency(&self, i: usize) -> Option<f64> {
        self.inverse.get(i).copied()
    }

    /// The factor of cosines and sines.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// Appends the table of some positions: cosine and sine of each pair, `[positions, pairs, 2]`.
    pub fn table(&self, positions: impl Iterator<Item = u32>, out: &mut Vec<f32>) {
        for position in positions {
            out.extend(self.inverse.iter().flat_map(|inverse| {
                let (sine, cosine) = (f64::from(position) * inverse).sin_cos();
                [(cosine * self.magnitude) as f32, (sine * self.magnitude) as f32]
            }));
        }
    }
}

fn positive(what: &'static str, got: f64) -> Result<f64, FrequencyError> {
    if got.is_finite() && got > 0.0 { Ok(got) } else { Err(FrequencyError::NotPositive { what, got }) }
}

/// Scales frequencies. Returns the factor of cosines and sines.
fn scale(inverse: &mut [f64], scaling: RopeScaling, base: f64) -> Result<f64, FrequencyError> {
    match scaling {
        RopeScaling::None => Ok(1.0),
        RopeScaling::Linear { factor } => {
            positive("the scaling factor", factor)?;
            inverse.iter_mut().for_each(|inverse| *inverse /= factor);
            Ok(1.0)
        }
        RopeScaling::Llama3 { factor, low, high, original } => {
            positive("the scaling factor", factor)?;
            positive("the original length", original)?;
            positive("the distance of the low and high frequency factors", high - low)?;
            for inverse in inverse {
                let turns = original * *inverse / TAU;
                let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                *inverse = mixed(*inverse, factor, kept);
            }
            Ok(1.0)
        }
        RopeScaling::Yarn { factor, original, beta_fast, beta_slow, attention_factor } => {
            positive("the scaling factor", factor)?;
            positive("the original length", original)?;
            positive("beta_fast", beta_fast)?;
            positive("beta_slow", beta_slow)?;
            positive("the logarithm of the base", base.ln())?;
            let rotated = 2.0 * inverse.len() as f64;
            // The pair that makes `turns` turns over the original length.
            let pair = |turns: f64| rotated * (original / (turns * TAU)).ln() / (2.0 * base.ln());
            let first = pair(beta_fast).floor().max(0.0);
            let last = pair(beta_slow).ceil().min(rotated - 1.0);
            for (i, inverse) in inverse.iter_mut().enumerate() {
                // A ramp without length would divide by zero.
                let slowed = (i as f64 - first) / (last - first).max(0.001);
                *inverse = mixed(*inverse, factor, 1.0 - slowed.clamp(0.0, 1.0));
            }
            let magnitude = attention_factor.unwrap_or_else(|| RopeScaling::usual_attention_factor(factor));
            positive("the attention factor", magnitude)
        }
    }
}

/// A frequency of which a part is kept and the rest slowed.
fn mixed(frequency: f64, factor: f64, kept: f64) -> f64 {
    frequency * kept + frequency / factor * (1.0 - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, not {expected}");
    }

    fn all(scaling: RopeScaling, base: f64, rotated: usize) -> Vec<f64> {
        let frequencies = Frequencies::new(scaling, base, rotated, None).unwrap();
        (0..rotated / 2).map(|i| frequencies.frequency(i).unwrap()).collect()
    }

    #[test]
    fn plain_frequencies_are_powers_of_the_base() {
        // 10000^(-2i/8): 1, 1/10, 1/100, 1/1000.
        for (i, got) in all(RopeScaling::None, 10_000.0, 8).into_iter().enumerate() {
            near(got, 10f64.powi(-(i as i32)));
        }
        for (i, got) in all(RopeScaling::Linear { factor: 4.0 }, 10_000.0, 8).into_iter().enumerate() {
            near(got, 0.25 * 10f64.powi(-(i as i32)));
        }
    }

    #[test]
    fn factors_divide() {
        let factors = [1.0, 2.0, 4.0, 0.5];
        let got = Frequencies::new(RopeScaling::None, 10_000.0, 8, Some(&factors)).unwrap();
        for (i, factor) in factors.into_iter().enumerate() {
            near(got.frequency(i).unwrap(), 10f64.powi(-(i as i32)) / f64::from(factor));
        }
    }

    #[test]
    fn llama3_keeps_the_fast_and_slows_the_slow() {
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
            let slowed = i as f64 / 4.0;
            near(got, 10f64.powi(-(i as i32)) * ((1.0 - slowed) + slowed / 32.0));
        }
        let magnitude = |given| Frequencies::new(scaling(given), 100_000.0, 10, None).unwrap().magnitude();
        near(magnitude(None), 1.0 + 0.1 * 32f64.ln());
        near(magnitude(Some(1.25)), 1.25);
        // A factor below 1 reaches no further, so nothing grows or shrinks.
        near(RopeScaling::usual_attention_factor(0.5), 1.0);
    }

    #[test]
    fn tables_are_exact_far_out() {
        let frequencies = Frequencies::new(RopeScaling::None, 10_000.0, 4, None).unwrap();
        let mut table = vec![7.0];
        frequencies.table([0, 1, 1_000_000].into_iter(), &mut table);
        assert_eq!(table.len(), 1 + 3 * 2 * 2);
        assert_eq!(table[1..5], [1.0, 0.0, 1.0, 0.0]);
        assert_eq!(table[5..7], [1f64.cos() as f32, 1f64.sin() as f32]);
        // cos and sin of 1e6 and of 1e4, known to many places.
        let far = [0.936_752_1, -0.349_993_5, -0.952_155_4, -0.305_614_4];
        assert!(table[9..].iter().zip(far).all(|(got, far)| (got - far).abs() < 1e-7), "{table:?}");
    }

    #[test]
    fn nonsense_is_refused() {
        let make = |base, rotated, factors| Frequencies::new(RopeScaling::None, base, rotated, factors);
        assert_eq!(make(1e4, 7, None), Err(FrequencyError::Rotated(7)));
        assert_eq!(make(1e4, 0, None), Err(FrequencyError::Rotated(0)));
        assert!(matches!(make(-1.0, 8, None), Err(FrequencyError::NotPositive { .. })));
        assert_eq!(make(1e4, 8, Some(&[1.0])), Err(FrequencyError::Factors { pairs: 4, got: 1 }));
        assert!(make(1e4, 4, Some(&[1.0, 0.0])).is_err());
        assert!(Frequencies::new(RopeScaling::Linear { factor: 0.0 }, 1e4, 8, None).is_err());
    }
}
