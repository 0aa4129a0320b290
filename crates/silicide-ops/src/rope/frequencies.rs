//! Angles of rotary position embeddings, computed on the host in f64: exact at any position, on every device.
//!
//! Pair `i` of `rotated / 2` rotates by `position * frequency(i)`, where `frequency(i)` is `base^(-2 i / rotated)`, divided by
//! the pair's own factor if there is one. Scaling for longer contexts ([`Frequencies::map`]) is up to the model.

/// An error in the numbers that frequencies are computed from.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FrequencyError {
    /// Elements that make no pairs.
    #[error("rope rotates pairs, so an even number of elements above 0, got {0}")]
    Rotated(usize),
    /// A number that must be finite and positive.
    #[error("rope: {what} must be finite and above 0, got {got}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// Its value.
        got: f64,
    },
    /// Factors for another number of pairs.
    #[error("rope has {pairs} pairs, got {got} frequency factors")]
    Factors {
        /// Pairs of a head.
        pairs: usize,
        /// Factors given.
        got: usize,
    },
}

impl FrequencyError {
    /// Returns `got` if it is finite and above 0.
    pub fn check(what: &'static str, got: f64) -> Result<f64, FrequencyError> {
        if got.is_finite() && got > 0.0 { Ok(got) } else { Err(FrequencyError::NotPositive { what, got }) }
    }
}

/// The frequency of each pair, and the factor of cosines and sines.
#[derive(Clone, Debug, PartialEq)]
pub struct Frequencies {
    frequencies: Vec<f64>,
    magnitude: f64,
}

impl Frequencies {
    /// Returns the frequencies of heads of which `rotated` elements are rotated. `factors`, one for each pair, divide them.
    pub fn new(base: f64, rotated: usize, factors: Option<&[f32]>) -> Result<Frequencies, FrequencyError> {
        if rotated == 0 || !rotated.is_multiple_of(2) {
            return Err(FrequencyError::Rotated(rotated));
        }
        FrequencyError::check("the base", base)?;
        let pairs = rotated / 2;
        let frequencies = (0..pairs).map(|i| base.powf(-2.0 * i as f64 / rotated as f64)).collect();
        let mut all = Frequencies { frequencies, magnitude: 1.0 };
        if let Some(factors) = factors {
            if factors.len() != pairs {
                return Err(FrequencyError::Factors { pairs, got: factors.len() });
            }
            for (frequency, &factor) in all.frequencies.iter_mut().zip(factors) {
                *frequency /= FrequencyError::check("a frequency factor", f64::from(factor))?;
            }
        }
        Ok(all)
    }

    /// Returns these frequencies changed by `change`, which gets the index and the frequency of each pair.
    pub fn map(mut self, mut change: impl FnMut(usize, f64) -> f64) -> Result<Frequencies, FrequencyError> {
        for (i, frequency) in self.frequencies.iter_mut().enumerate() {
            *frequency = FrequencyError::check("a frequency", change(i, *frequency))?;
        }
        Ok(self)
    }

    /// Sets the factor of cosines and sines, which is 1 otherwise.
    pub fn with_magnitude(self, magnitude: f64) -> Result<Frequencies, FrequencyError> {
        Ok(Frequencies { magnitude: FrequencyError::check("the attention factor", magnitude)?, ..self })
    }

    /// Returns the number of pairs.
    pub fn pairs(&self) -> usize {
        self.frequencies.len()
    }

    /// Returns the angle of pair `i` from one position to the next, in radians.
    pub fn frequency(&self, i: usize) -> Option<f64> {
        self.frequencies.get(i).copied()
    }

    /// Returns the factor of cosines and sines.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// Appends the table of `positions` to `out`: cosine and sine of each pair, `[positions, pairs, 2]`.
    pub fn table(&self, positions: impl Iterator<Item = u32>, out: &mut Vec<f32>) {
        for position in positions {
            out.extend(self.frequencies.iter().flat_map(|frequency| {
                let (sine, cosine) = (f64::from(position) * frequency).sin_cos();
                [(cosine * self.magnitude) as f32, (sine * self.magnitude) as f32]
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, not {expected}");
    }

    #[test]
    fn frequencies_are_powers_of_the_base() {
        // 10000^(-2i/8): 1, 1/10, 1/100, 1/1000.
        let frequencies = Frequencies::new(10_000.0, 8, None).unwrap();
        for i in 0..4 {
            near(frequencies.frequency(i as usize).unwrap(), 10f64.powi(-i));
        }
    }

    #[test]
    fn factors_divide_frequencies() {
        let factors = [1.0, 2.0, 4.0, 0.5];
        let got = Frequencies::new(10_000.0, 8, Some(&factors)).unwrap();
        for (i, factor) in factors.into_iter().enumerate() {
            near(got.frequency(i).unwrap(), 10f64.powi(-(i as i32)) / f64::from(factor));
        }
    }

    #[test]
    fn the_magnitude_multiplies_cosines_and_sines() {
        let frequencies = Frequencies::new(10_000.0, 2, None).unwrap().with_magnitude(2.0).unwrap();
        let mut table = Vec::new();
        frequencies.table([0, 1].into_iter(), &mut table);
        assert_eq!(table, [2.0, 0.0, (2.0 * 1f64.cos()) as f32, (2.0 * 1f64.sin()) as f32]);
    }

    #[test]
    fn tables_are_exact_far_out() {
        let frequencies = Frequencies::new(10_000.0, 4, None).unwrap();
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
    fn numbers_that_make_no_frequencies_are_refused() {
        assert_eq!(Frequencies::new(1e4, 7, None), Err(FrequencyError::Rotated(7)));
        assert_eq!(Frequencies::new(1e4, 0, None), Err(FrequencyError::Rotated(0)));
        assert!(matches!(Frequencies::new(-1.0, 8, None), Err(FrequencyError::NotPositive { .. })));
        let factors = Frequencies::new(1e4, 8, Some(&[1.0]));
        assert_eq!(factors, Err(FrequencyError::Factors { pairs: 4, got: 1 }));
        assert!(Frequencies::new(1e4, 4, Some(&[1.0, 0.0])).is_err());
        let plain = Frequencies::new(1e4, 4, None).unwrap();
        assert!(plain.clone().map(|_, frequency| frequency / 0.0).is_err());
        assert!(plain.with_magnitude(f64::NAN).is_err());
    }
}
