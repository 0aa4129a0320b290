//! The rotation: signs, then a Walsh-Hadamard transform.
//!
//! ```text
//! y = H (s * x) / sqrt(d)        H[i][j] = -1 if i & j has an odd number of bits, else 1
//! x = s * (H y / sqrt(d))        since H H = d
//! ```
//!
//! `s` are fixed random signs. The transform spreads every coordinate over all of them, so the coordinates of the result look
//! normal, whatever `x` is like. Lengths and products stay: `rotate(a) . rotate(b) = a . b`.

/// The lengths of heads that [`rotate`] takes: the powers of two among these.
pub const HEAD_LENGTHS: std::ops::RangeInclusive<usize> = 32..=512;

/// Words of signs: bit `i` is set where that of coordinate `i` is negative.
static SIGNS: [u64; *HEAD_LENGTHS.end() / 64] = {
    let mut words = [0; *HEAD_LENGTHS.end() / 64];
    let mut i = 0;
    while i < *HEAD_LENGTHS.end() {
        words[i / 64] |= (hash(i as u64 + 1) >> 63) << (i % 64);
        i += 1;
    }
    words
};

/// Returns whether heads of this length can be rotated.
pub fn is_rotated(head_len: usize) -> bool {
    head_len.is_power_of_two() && HEAD_LENGTHS.contains(&head_len)
}

/// Rotates a head: multiplies by the signs, then transforms. Heads of other lengths than [`is_rotated`] stay as they are.
#[inline(always)]
pub fn rotate(head: &mut [f32]) {
    if is_rotated(head.len()) {
        multiply_signs(head);
        transform(head);
    }
}

/// The inverse of [`rotate`]: transforms, then multiplies by the signs.
#[inline(always)]
pub fn unrotate(head: &mut [f32]) {
    if is_rotated(head.len()) {
        transform(head);
        multiply_signs(head);
    }
}

/// The Walsh-Hadamard transform, scaled so that it is its own inverse. Sums are added in one order on every machine.
#[inline(always)]
fn transform(head: &mut [f32]) {
    for eight in head.as_chunks_mut::<8>().0 {
        *eight = within::<4>(within::<2>(within::<1>(*eight)));
    }
    let mut half = 8;
    while half < head.len() {
        for pair in head.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (head.len() as f32).sqrt();
    head.iter_mut().for_each(|value| *value *= scale);
}

/// The stage of the transform with pairs that are `HALF` apart, of eight elements: sums, and differences as `a - b = a + -1 * b`.
#[inline(always)]
fn within<const HALF: usize>(x: [f32; 8]) -> [f32; 8] {
    let mut y = [0.0; 8];
    for i in 0..8 {
        let sign = if i & HALF == 0 { 1.0 } else { -1.0 };
        y[i] = x[i ^ HALF] + sign * x[i];
    }
    y
}

#[inline(always)]
fn multiply_signs(head: &mut [f32]) {
    for (values, signs) in head.chunks_mut(64).zip(&SIGNS) {
        for (i, value) in values.iter_mut().enumerate() {
            *value = f32::from_bits(value.to_bits() ^ ((signs >> i & 1) as u32) << 31);
        }
    }
}

/// Returns whether the sign of a coordinate is negative. That of coordinates past [`HEAD_LENGTHS`] is not.
pub fn is_negative(index: usize) -> bool {
    SIGNS.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

/// The output of SplitMix64 at a position.
pub(super) const fn hash(position: u64) -> u64 {
    let mut hash = position.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(len: usize) -> Vec<f32> {
        (0..len).map(|i| (i as f32 * 0.37).sin() + i as f32 * 0.01).collect()
    }

    #[test]
    fn the_transform_is_its_definition() {
        for len in [32, 64, 256] {
            let x = ramp(len);
            let mut y = x.clone();
            transform(&mut y);
            for (i, y) in y.iter().enumerate() {
                let sign = |j: usize| if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
                let sum: f64 = x.iter().enumerate().map(|(j, &x)| sign(j) * f64::from(x)).sum();
                assert!((sum / (len as f64).sqrt() - f64::from(*y)).abs() < 1e-5, "{len}, {i}");
            }
        }
    }

    #[test]
    fn unrotating_returns_the_vector() {
        for len in [32, 64, 128, 256, 512] {
            let x = ramp(len);
            let mut y = x.clone();
            rotate(&mut y);
            assert!(x.iter().zip(&y).any(|(x, y)| (x - y).abs() > 0.1));
            unrotate(&mut y);
            assert!(x.iter().zip(&y).all(|(x, y)| (x - y).abs() < 1e-5), "{len}");
        }
    }

    #[test]
    fn products_stay() {
        let (mut a, mut b) = (ramp(128), ramp(128).into_iter().rev().collect::<Vec<_>>());
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let before = product(&a, &b);
        rotate(&mut a);
        rotate(&mut b);
        assert!((product(&a, &b) / before - 1.0).abs() < 1e-5);
    }

    #[test]
    fn an_outlier_is_spread_over_all_coordinates() {
        let mut x = vec![0.0; 64];
        x[17] = 8.0;
        rotate(&mut x);
        assert!(x.iter().all(|x| (x.abs() - 1.0).abs() < 1e-6));
    }

    #[test]
    fn about_half_of_the_signs_are_negative() {
        for len in [32usize, 64, 128, 256, 512] {
            let negative = (0..len).filter(|&i| is_negative(i)).count();
            assert!(negative.abs_diff(len / 2) <= len / 6, "{negative} of {len}");
        }
    }
}
