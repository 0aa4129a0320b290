//! The codec of compressed caches, on the host: signs and a Walsh-Hadamard transform, a norm, and the nearest level of a codebook.
//!
//! [`silicide::quant::turbo`] is silicide's own codec, whose codes take the bits that they say. Its signs and blocks differ.

mod tables;

pub use tables::{
    CODEBOOK_2BIT, CODEBOOK_3BIT, CODEBOOK_4BIT, CODEBOOK_HB_5BIT, CODEBOOK_HB_6BIT, CODEBOOK_HB_8BIT,
    TBQ_SIGNS_256, TBQ_SIGNS_512,
};

use crate::error::{Result, refuse};

/// Norms below this are those of zeros.
const LEAST_NORM: f32 = 1e-10;
/// The longest head.
const MOST_DIM: usize = 1 << 16;

/// Bits of a coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitWidth {
    /// 2 bits.
    Two,
    /// 3 bits.
    Three,
    /// 4 bits.
    Four,
    /// 3 bits for the first quarter of the coordinates, 2 for the rest.
    TwoPointFive,
}

/// Bits and length of heads.
#[derive(Clone, Debug)]
pub struct TurboQuantConfig {
    /// Bits of a coordinate.
    pub bit_width: BitWidth,
    /// Elements of a head: a power of two.
    pub head_dim: usize,
}

impl TurboQuantConfig {
    /// Returns the bits and the levels of a coordinate.
    fn levels(&self, coordinate: usize) -> (usize, &'static [f32]) {
        match self.bit_width {
            BitWidth::Four => (4, &CODEBOOK_4BIT),
            BitWidth::Three => (3, &CODEBOOK_3BIT),
            BitWidth::TwoPointFive if coordinate < self.head_dim / 4 => (3, &CODEBOOK_3BIT),
            BitWidth::Two | BitWidth::TwoPointFive => (2, &CODEBOOK_2BIT),
        }
    }

    fn bits(&self) -> usize {
        (0..self.head_dim).map(|coordinate| self.levels(coordinate).0).sum()
    }
}

/// Transforms in place; twice is the identity. Refuses lengths that are no power of two.
pub fn fwht_inplace(x: &mut [f32]) -> Result<()> {
    if !x.len().is_power_of_two() {
        refuse!("FWHT requires power-of-two length, got {}", x.len());
    }
    let mut half = 1;
    while half < x.len() {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (x.len() as f32).sqrt();
    x.iter_mut().for_each(|value| *value *= scale);
    Ok(())
}

/// Whether an element is negated; elements past the table are not.
pub(crate) fn is_negated(signs: &[u8], element: usize) -> bool {
    signs.get(element / 8).is_some_and(|byte| byte >> (element % 8) & 1 == 1)
}

/// Negates the elements whose bit is 1.
pub fn apply_d1_sign_mask_inplace(x: &mut [f32], signs: &[u8]) {
    for (element, value) in x.iter_mut().enumerate() {
        if is_negated(signs, element) {
            *value = -*value;
        }
    }
}

/// The levels of 5, 6 or 8 bits.
pub(crate) fn wide_levels(bits: u32) -> Option<&'static [f32]> {
    match bits {
        5 => Some(&CODEBOOK_HB_5BIT),
        6 => Some(&CODEBOOK_HB_6BIT),
        8 => Some(&CODEBOOK_HB_8BIT),
        _ => None,
    }
}

/// Returns the level of a code of 5, 6 or 8 bits; 0 for other bits.
pub fn hb_centroid(idx: u8, bits: u32) -> f32 {
    wide_levels(bits).and_then(|levels| levels.get(usize::from(idx) % levels.len())).copied().unwrap_or(0.0)
}

/// Returns the code of the nearest level of 5, 6 or 8 bits; 0 for other bits.
pub fn hb_nearest_centroid(value: f32, bits: u32) -> u8 {
    wide_levels(bits).map_or(0, |levels| nearest(value, levels))
}

/// The first of the nearest levels.
fn nearest(value: f32, levels: &[f32]) -> u8 {
    let mut best = (0, f32::INFINITY);
    for (code, level) in levels.iter().enumerate() {
        let distance = (value - level).abs();
        if distance < best.1 {
            best = (code, distance);
        }
    }
    best.0 as u8
}

/// Returns the codes, a byte each, and the norm of a head of 256 elements.
pub fn turboquant_hb_encode_d256(x: &[f32], bits: u32) -> Result<(Vec<u8>, f32)> {
    if x.len() != 256 {
        refuse!("turboquant_hb_encode_d256 expects head_dim=256, got {}", x.len());
    }
    let Some(levels) = wide_levels(bits) else {
        refuse!("turboquant_hb_encode_d256 bits must be 5, 6, or 8, got {bits}")
    };
    let mut head = x.to_vec();
    apply_d1_sign_mask_inplace(&mut head, &TBQ_SIGNS_256);
    fwht_inplace(&mut head)?;
    let norm = head.iter().map(|value| value * value).sum::<f32>().sqrt();
    let scale = if norm > LEAST_NORM { 16.0 / norm } else { 0.0 };
    Ok((head.iter().map(|value| nearest(value * scale, levels)).collect(), norm))
}

/// Returns the codes of a head, packed with the most significant bit first, and its norm.
pub fn turboquant_quantize(x: &[f32], config: &TurboQuantConfig) -> Result<(Vec<u8>, f32)> {
    let dim = config.head_dim;
    if x.len() != dim {
        refuse!("Expected vector of length {dim}, got {}", x.len());
    }
    if !dim.is_power_of_two() {
        refuse!("head_dim must be power of 2, got {dim}");
    }
    let mut head = x.to_vec();
    fwht_inplace(&mut head)?;
    let norm = head.iter().map(|value| value * value).sum::<f32>().sqrt();
    let mut packed = vec![0u8; config.bits().div_ceil(8)];
    if norm < 1e-30 {
        return Ok((packed, 0.0));
    }
    let scale = (dim as f32).sqrt() / norm;
    let mut at = 0;
    for (coordinate, value) in head.iter().enumerate() {
        let (bits, levels) = config.levels(coordinate);
        let code = nearest(value * scale, levels);
        for bit in (0..bits).rev() {
            if let Some(byte) = packed.get_mut(at / 8) {
                *byte |= (code >> bit & 1) << (7 - at % 8);
            }
            at += 1;
        }
    }
    Ok((packed, norm))
}

/// Returns the head that packed codes and a norm stand for. Codes that are not there are 0.
pub fn turboquant_dequantize(packed: &[u8], norm: f32, config: &TurboQuantConfig) -> Result<Vec<f32>> {
    let dim = config.head_dim;
    if !dim.is_power_of_two() || dim > MOST_DIM {
        refuse!("head_dim must be power of 2, at most {MOST_DIM}, got {dim}");
    }
    let (scale, mut at) = (norm / (dim as f32).sqrt(), 0);
    let mut head = Vec::with_capacity(dim);
    for coordinate in 0..dim {
        let (bits, levels) = config.levels(coordinate);
        let mut code = 0usize;
        for _ in 0..bits {
            let bit = packed.get(at / 8).map_or(0, |byte| byte >> (7 - at % 8) & 1);
            code = code << 1 | usize::from(bit);
            at += 1;
        }
        head.push(levels.get(code).copied().unwrap_or(0.0) * scale);
    }
    fwht_inplace(&mut head)?;
    Ok(head)
}

/// Computes the Lloyd-Max levels of a normal variable. `num_levels` is a power of two from 2 to 256; other numbers are those of the next.
pub fn compute_lloyd_max_codebook(num_levels: usize) -> Vec<f64> {
    silicide::quant::turbo::lloyd_max(num_levels)
}

/// Computes the Lloyd-Max levels of a coordinate of a random unit vector of `dim` elements, by alternating its two equations.
pub fn compute_lloyd_max_beta_codebook(dim: usize, num_levels: usize) -> Vec<f64> {
    const CELLS: usize = 20_000;
    let exponent = (dim as f64 - 3.0) / 2.0;
    let place = |cell: usize| (2 * cell + 1) as f64 / CELLS as f64 - 1.0;
    let mass: Vec<f64> = (0..CELLS).map(|cell| (1.0 - place(cell) * place(cell)).powf(exponent)).collect();
    // Running sums of the density and of its first moment.
    let mut sums = vec![(0.0, 0.0)];
    for (cell, mass) in mass.iter().enumerate() {
        let (total, moment) = sums.last().copied().unwrap_or((0.0, 0.0));
        sums.push((total + mass, moment + mass * place(cell)));
    }
    let all = sums.last().map_or(0.0, |sum| sum.0);
    let at = |x: f64| {
        let position = ((x + 1.0) / 2.0 * CELLS as f64).clamp(0.0, CELLS as f64);
        let cell = (position as usize).min(CELLS - 1);
        let (low, high) = (sums[cell], sums[cell + 1]);
        let part = position - cell as f64;
        (low.0 + part * (high.0 - low.0), low.1 + part * (high.1 - low.1))
    };
    let quantile = |probability: f64| {
        sums.partition_point(|sum| sum.0 < probability * all) as f64 / CELLS as f64 * 2.0 - 1.0
    };
    let mut bounds: Vec<f64> = (0..=num_levels).map(|i| quantile(i as f64 / num_levels as f64)).collect();
    let mut levels = vec![0.0; num_levels];
    for _ in 0..5000 {
        if let [first, .., last] = bounds.as_mut_slice() {
            (*first, *last) = (-1.0, 1.0);
        }
        let mut moved = 0f64;
        for (level, pair) in levels.iter_mut().zip(bounds.windows(2)) {
            let (low, high) = (at(pair[0]), at(pair[1]));
            let total = high.0 - low.0;
            let mean = if total > 0.0 { (high.1 - low.1) / total } else { f64::midpoint(pair[0], pair[1]) };
            moved = moved.max((mean - *level).abs());
            *level = mean;
        }
        if moved < 1e-10 {
            break;
        }
        for (bound, pair) in bounds.iter_mut().skip(1).zip(levels.windows(2)) {
            *bound = f64::midpoint(pair[0], pair[1]);
        }
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_up_to_5_bits_are_lloyd_max_codebooks() {
        let books: [&[f32]; 4] = [&CODEBOOK_2BIT, &CODEBOOK_3BIT, &CODEBOOK_4BIT, &CODEBOOK_HB_5BIT];
        for book in books {
            let exact = compute_lloyd_max_codebook(book.len());
            assert!(book.iter().zip(exact).all(|(level, exact)| (f64::from(*level) - exact).abs() < 1e-4));
        }
    }

    #[test]
    fn levels_ascend_and_are_symmetric() {
        for bits in [5, 6, 8] {
            let levels = wide_levels(bits).unwrap();
            assert_eq!(levels.len(), 1 << bits);
            assert!(levels.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(levels.iter().zip(levels.iter().rev()).all(|(a, b)| (a + b).abs() < 1e-5));
        }
    }

    #[test]
    fn heads_survive_to_within_their_bits() {
        // The high bits of a linear congruential generator.
        let mut state = 1u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 2f32.powi(23) - 1.0
        };
        let head: Vec<f32> = (0..256).map(|_| draw()).collect();
        let energy: f32 = head.iter().map(|x| x * x).sum();
        for (bit_width, most) in [
            (BitWidth::Two, 0.16),
            (BitWidth::TwoPointFive, 0.14),
            (BitWidth::Three, 0.05),
            (BitWidth::Four, 0.015),
        ] {
            let config = TurboQuantConfig { bit_width, head_dim: 256 };
            let (packed, norm) = turboquant_quantize(&head, &config).unwrap();
            assert_eq!(packed.len(), config.bits() / 8);
            let back = turboquant_dequantize(&packed, norm, &config).unwrap();
            let error: f32 = head.iter().zip(back).map(|(a, b)| (a - b) * (a - b)).sum();
            assert!(error < most * energy, "{bit_width:?}: {}", error / energy);
        }
    }

    #[test]
    fn levels_of_unit_vectors_are_those_of_a_normal_variable_in_many_dimensions() {
        let beta = compute_lloyd_max_beta_codebook(512, 8);
        let normal = compute_lloyd_max_codebook(8);
        for (beta, normal) in beta.iter().zip(normal) {
            assert!((beta * 512f64.sqrt() - normal).abs() < 0.02, "{beta} {normal}");
        }
    }
}
