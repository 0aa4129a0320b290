//! Lloyd-Max codebooks: the levels that quantize a normal variable with the least squared error.
//!
//! Levels `c` and the boundaries `b` between them are optimal if every boundary is the midpoint of its neighbours and every level
//! the mean of the density between its boundaries:
//!
//! ```text
//! b[i] = (c[i] + c[i+1]) / 2
//! c[i] = (phi(b[i-1]) - phi(b[i])) / P(b[i-1] < x < b[i])
//! ```
//!
//! The codebooks are symmetric, so only the positive half is solved for, with Newton's method: the Jacobian is tridiagonal. The start
//! is close: levels as dense as the cube root of the density, which is optimal for many levels. Alternating the two equations (Lloyd's
//! method) needs thousands of steps for 256 levels, this needs five. All functions are those of `libm`, so every machine has the same bits.

use std::f64::consts::{PI, SQRT_2};

/// Steps of Newton's method after which the levels of every size that [`lloyd_max`] takes no longer change.
const STEPS: usize = 40;

/// Levels for a normal variable of variance 1, and their error.
#[derive(Clone, Debug, PartialEq)]
pub struct Codebook {
    levels: Vec<f32>,
    /// Midpoints between neighbours.
    boundaries: Vec<f32>,
    distortion: f64,
}

/// Means of three values, and of their products by each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) means: [f64; 3],
    products: [[f64; 3]; 3],
}

impl Moments {
    fn scaled(self, factor: f64) -> Moments {
        Moments {
            means: self.means.map(|mean| mean * factor),
            products: self.products.map(|row| row.map(|mean| mean * factor)),
        }
    }

    /// Returns the moments of a mixture: `share` of `self`, the rest of `other`.
    pub(super) fn mixed(self, share: f64, other: Moments) -> Moments {
        let (mut mixed, rest) = (self.scaled(share), other.scaled(1.0 - share));
        for i in 0..3 {
            mixed.means[i] += rest.means[i];
            for j in 0..3 {
                mixed.products[i][j] += rest.products[i][j];
            }
        }
        mixed
    }

    /// Returns the covariance of values `i` and `j` where the mean of the third value is fixed.
    pub(super) fn covariance(&self, i: usize, j: usize) -> f64 {
        let free = |i: usize, j: usize| self.products[i][j] - self.means[i] * self.means[j];
        free(i, j) - free(i, 2) * free(j, 2) / free(2, 2)
    }
}

impl Codebook {
    fn new(levels: &[f64]) -> Codebook {
        let boundaries = levels.windows(2).map(|pair| ((pair[0] + pair[1]) / 2.0) as f32).collect();
        Codebook {
            levels: levels.iter().map(|&level| level as f32).collect(),
            boundaries,
            distortion: distortion(levels),
        }
    }

    /// Computes the codebook of `1 << bits` levels, for 1 to 8 bits.
    pub(super) fn of_bits(bits: u32) -> Codebook {
        Codebook::new(&lloyd_max(1 << bits))
    }

    /// Returns the levels in ascending order.
    pub fn levels(&self) -> &[f32] {
        &self.levels
    }

    /// Returns the index of the level that is nearest to `value`; of two that are as near, the lower. NaN has the index 0.
    pub fn nearest(&self, value: f32) -> usize {
        self.boundaries.partition_point(|&boundary| boundary < value)
    }

    /// Returns the means of products of `u = [x * q, q * q, x * x]`, for `x` a coordinate of a random point of the sphere of radius
    /// `sqrt(n)` in `n` dimensions, and `q` its level. The density of `x` is proportional to `(1 - x * x / n) ^ ((n - 3) / 2)`.
    pub(super) fn moments(&self, n: usize) -> Moments {
        let (n, cells) = (n as f64, 1 << 16);
        let (mut mass, mut found) = (0.0, Moments::default());
        for cell in 0..cells {
            let x = n.sqrt() * ((2 * cell + 1) as f64 / cells as f64 - 1.0);
            let density = libm::pow(1.0 - x * x / n, (n - 3.0) / 2.0);
            let q = f64::from(self.levels[self.nearest(x as f32)]);
            let u = [x * q, q * q, x * x];
            mass += density;
            for i in 0..3 {
                found.means[i] += density * u[i];
                for j in 0..3 {
                    found.products[i][j] += density * u[i] * u[j];
                }
            }
        }
        found.scaled(1.0 / mass)
    }

    /// Returns the mean squared error for a normal variable of variance 1.
    pub fn distortion(&self) -> f64 {
        self.distortion
    }
}

/// Returns the Lloyd-Max levels of a normal variable of variance 1, in ascending order. `count` is a power of two from 2 to 256; other
/// counts return the levels of the next one inside of that range.
pub fn lloyd_max(count: usize) -> Vec<f64> {
    let half = count.clamp(2, 256).next_power_of_two() / 2;
    let mut levels: Vec<f64> =
        (0..half).map(|i| 3f64.sqrt() * quantile(0.5 + (i as f64 + 0.5) / (2 * half) as f64)).collect();
    for _ in 0..STEPS {
        newton_step(&mut levels);
    }
    levels.iter().rev().map(|level| -level).chain(levels.iter().copied()).collect()
}

/// Moves the positive levels by one step of Newton's method.
fn newton_step(levels: &mut [f64]) {
    let count = levels.len();
    let boundary = |i: usize| match i {
        0 => 0.0,
        i if i == count => f64::INFINITY,
        i => (levels[i - 1] + levels[i]) / 2.0,
    };
    // Row i: below * d[i-1] + diagonal * d[i] + above * d[i+1] = residual, for residual = mean - level.
    let rows: Vec<[f64; 4]> = (0..count)
        .map(|i| {
            let (low, high) = (boundary(i), boundary(i + 1));
            let mass = tail(low) - tail(high);
            let mean = (density(low) - density(high)) / mass;
            // Derivatives of the mean by its boundaries, each of which moves by half of a level's step.
            let by_low = if i == 0 { 0.0 } else { density(low) * (mean - low) / mass / 2.0 };
            let by_high = if i + 1 == count { 0.0 } else { density(high) * (high - mean) / mass / 2.0 };
            [-by_low, 1.0 - by_low - by_high, -by_high, mean - levels[i]]
        })
        .collect();
    // Thomas's algorithm: forward elimination, then substitution.
    let mut eliminated: Vec<(f64, f64)> = Vec::with_capacity(count);
    for [below, diagonal, above, residual] in rows {
        let (above_before, residual_before) = eliminated.last().copied().unwrap_or((0.0, 0.0));
        let pivot = diagonal - below * above_before;
        eliminated.push((above / pivot, (residual - below * residual_before) / pivot));
    }
    let mut step = 0.0;
    for (level, (above, residual)) in levels.iter_mut().zip(eliminated).rev() {
        step = residual - above * step;
        *level += step;
    }
}

/// Returns the mean squared error of levels: the variance, 1, less that of the levels.
fn distortion(levels: &[f64]) -> f64 {
    let bounds = || levels.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let lows = std::iter::once(f64::NEG_INFINITY).chain(bounds());
    let highs = bounds().chain(std::iter::once(f64::INFINITY));
    1.0 - levels
        .iter()
        .zip(lows.zip(highs))
        .map(|(level, (low, high))| (tail(low) - tail(high)) * level * level)
        .sum::<f64>()
}

/// The density of the normal distribution.
fn density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0) / (2.0 * PI).sqrt()
}

/// The probability that a normal variable is above `x`.
fn tail(x: f64) -> f64 {
    libm::erfc(x / SQRT_2) / 2.0
}

/// The value below which a normal variable is with a probability of 0.5 to 1, by bisection.
fn quantile(probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if 1.0 - tail(middle) < probability { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_means_between_midpoints() {
        for bits in 1..=8 {
            let levels = lloyd_max(1 << bits);
            for i in 0..levels.len() {
                let low = if i == 0 { f64::NEG_INFINITY } else { (levels[i - 1] + levels[i]) / 2.0 };
                let high = levels.get(i + 1).map_or(f64::INFINITY, |next| (levels[i] + next) / 2.0);
                let mean = (density(low) - density(high)) / (tail(low) - tail(high));
                assert!(
                    (mean - levels[i]).abs() < 1e-9,
                    "{bits} bits, level {i}: {} instead of {mean}",
                    levels[i]
                );
            }
        }
    }

    /// Max (1960), table I, for 4, 8 and 16 levels.
    #[test]
    fn levels_are_those_of_the_literature() {
        let positive = |count: usize| lloyd_max(count)[count / 2..].to_vec();
        let known: [&[f64]; 3] = [
            &[0.4528, 1.5104],
            &[0.2451, 0.7560, 1.3439, 2.1520],
            &[0.1284, 0.3881, 0.6568, 0.9424, 1.2562, 1.6181, 2.0690, 2.7326],
        ];
        for known in known {
            let levels = positive(known.len() * 2);
            assert!(
                levels.iter().zip(known).all(|(level, known)| (level - known).abs() < 1.1e-4),
                "{levels:?}"
            );
        }
    }

    /// Max (1960), table I.
    #[test]
    fn errors_are_those_of_the_literature() {
        for (bits, known) in [(1, 0.3634), (2, 0.1175), (3, 0.03454), (4, 0.009497)] {
            let distortion = Codebook::of_bits(bits).distortion();
            assert!((distortion / known - 1.0).abs() < 5e-4, "{bits} bits: {distortion}");
        }
    }

    #[test]
    fn an_error_falls_by_almost_four_per_bit() {
        for bits in 5..8 {
            let ratio = Codebook::of_bits(bits).distortion() / Codebook::of_bits(bits + 1).distortion();
            assert!((3.8..4.0).contains(&ratio), "{bits} bits: {ratio}");
        }
    }

    #[test]
    fn the_nearest_level_is_found() {
        let codebook = Codebook::of_bits(4);
        for step in -4000..4000 {
            let value = step as f32 * 1e-3;
            let apart = |index: usize| (codebook.levels()[index] - value).abs();
            let least = (0..16).map(apart).fold(f32::INFINITY, f32::min);
            assert!(apart(codebook.nearest(value)) <= least + 1e-6, "{value}");
        }
        assert_eq!(codebook.nearest(f32::INFINITY), 15);
        assert_eq!(codebook.nearest(f32::NEG_INFINITY), 0);
        assert_eq!(codebook.nearest(f32::NAN), 0);
    }
}
