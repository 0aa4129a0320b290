//! Functions of one f32 in code that vectorises: polynomials, no branches, no library calls. Relative error is
//! about 1e-7 over the whole range; NaN, infinities and subnormal results come out as in exact arithmetic. And the dot product.
//!
//! The polynomials are minimax fits (Remez) of the expressions named beside them.

use super::Simd;

/// Adding it to a small number leaves the nearest integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts: products of the first with small integers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// Sums of a dot product: one vector of AVX-512.
const LANES: usize = 16;

/// The dot product, summed in lanes: element `i` in lane `i % LANES`, and then the lanes in order.
#[inline(always)]
pub(crate) fn dot<S: Simd>(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, (a, b))| *sum = S::mul_add(*a, *b, *sum));
    }
    sums.iter_mut().zip(a_rest.iter().zip(b_rest)).for_each(|(sum, (a, b))| *sum = S::mul_add(*a, *b, *sum));
    sums.iter().sum()
}

/// Horner's rule, highest coefficient first.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let highest = coefficients.first().copied().unwrap_or(0.0);
    coefficients.into_iter().skip(1).fold(highest, |sum, coefficient| S::mul_add(sum, x, coefficient))
}

/// e^x.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    // Comparisons, not min and max, which would lose NaN.
    let x = if x > 90.0 { 90.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    let (shifted, rest) = reduce::<S>(x);
    // 2^whole in two factors, as it may itself be too large or too small for f32.
    let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let first = whole >> 1;
    exp_near_zero::<S>(rest) * power_of_two(first) * power_of_two(whole.wrapping_sub(first))
}

/// e^(x + tail) for x not above zero and a tail far smaller: cheaper than [`exp`].
#[inline(always)]
fn exp_below<S: Simd>(x: f32, tail: Option<f32>) -> f32 {
    let x = if x < -110.0 { -110.0 } else { x };
    let (shifted, rest) = reduce::<S>(x);
    let rest = tail.map_or(rest, |tail| rest + tail);
    // 2^(whole + 64), which is normal, and then the rest of the way.
    let whole = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    exp_near_zero::<S>(rest) * power_of_two(whole.wrapping_add(64)) * f32::from_bits((127 - 64) << 23)
}

/// `x = whole * ln 2 + rest` with the rest at most ln 2 / 2 from zero; the whole is in the low bits of the first.
#[inline(always)]
fn reduce<S: Simd>(x: f32) -> (f32, f32) {
    let shifted = S::mul_add(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = S::mul_add(whole, -LN2_HIGH, x);
    (shifted, S::mul_add(whole, -LN2_LOW, rest))
}

/// e^r for |r| <= ln 2 / 2.
#[inline(always)]
fn exp_near_zero<S: Simd>(r: f32) -> f32 {
    // (e^r - 1 - r) / r^2, to 3e-9.
    let curve =
        polynomial::<S, 5>(r, [0.001_381_446_8, 0.008_368_781, 0.041_668_393, 0.166_665_2, 0.499_999_94]);
    S::mul_add(curve * r, r, r) + 1.0
}

/// e^x for x up to 0, in half the instructions: what would be below the smallest normal number is 0.
#[inline(always)]
pub(crate) fn exp_down<S: Simd>(x: f32) -> f32 {
    const LEAST: f32 = -87.0;
    // As above, with the exponent's bias added to the integer.
    const BIASED: f32 = ROUND + 127.0;
    let bounded = if x < LEAST { LEAST } else { x };
    let shifted = S::mul_add(bounded, std::f32::consts::LOG2_E, BIASED);
    let whole = shifted - BIASED;
    let rest = S::mul_add(whole, -LN2_HIGH, bounded);
    let rest = S::mul_add(whole, -LN2_LOW, rest);
    // The same polynomial.
    let mut value = 0.001_381_446_8;
    for coefficient in [0.008_368_781, 0.041_668_393, 0.166_665_2, 0.499_999_94, 1.0, 1.0] {
        value = S::mul_add(value, rest, coefficient);
    }
    // A product, so that NaN stays.
    let result = value * f32::from_bits(shifted.to_bits() << 23);
    if x < LEAST { 0.0 } else { result }
}

/// 2^n for n that a normal f32 can hold.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// The natural logarithm; NaN below zero.
#[inline(always)]
pub(crate) fn log<S: Simd>(x: f32) -> f32 {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = if subnormal { x * 8_388_608.0 } else { x };
    let bias = if subnormal { -23.0 } else { 0.0 };
    // x = 2^exponent * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
    let bits = scaled.to_bits() as i32;
    let exponent = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let f = f32::from_bits(bits.wrapping_sub(exponent << 23) as u32) - 1.0;
    let exponent = exponent as f32 + bias;
    // (ln(1 + f) - f + f^2 / 2) / f^3, to 7e-10.
    let curve = polynomial::<S, 9>(
        f,
        [
            0.067_466_5,
            -0.116_756_65,
            0.118_881_66,
            -0.124_055_87,
            0.142_195_52,
            -0.166_679_96,
            0.200_021_2,
            -0.250_000_1,
            0.333_333_13,
        ],
    );
    let square = f * f;
    let small = S::mul_add(curve * f, square, exponent * LN2_LOW) - 0.5 * square;
    let result = S::mul_add(exponent, LN2_HIGH, small + f);
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    let result = if x < 0.0 { f32::NAN } else { result };
    // Infinity and NaN are their own logarithms.
    if x < f32::INFINITY { result } else { x }
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(x: f32) -> f32 {
    let size = x.abs();
    let tail = exp_below::<S>(-2.0 * size, None);
    let large = (1.0 - tail) / (1.0 + tail);
    // (tanh x - x) / x^3 in x^2 for |x| <= 0.64, to 6e-9.
    let square = x * x;
    let curve = polynomial::<S, 5>(
        square,
        [-0.005_591_011_6, 0.020_538_816, -0.053_709_656, 0.133_310_93, -0.333_332_7],
    );
    let small = S::mul_add(curve * square, size, size);
    let result = if size < 0.625 { small } else { large };
    result.copysign(x)
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(x: f32) -> f32 {
    let tail = exp_below::<S>(-x.abs(), None);
    let large = 1.0 / (1.0 + tail);
    if x < 0.0 { tail * large } else { large }
}

/// The normal distribution function, (1 + erf(x / sqrt 2)) / 2, accurate in the lower tail too.
#[inline(always)]
pub(crate) fn normal_cdf<S: Simd>(x: f32) -> f32 {
    let t = x.abs();
    let t = if t > 15.0 { 15.0 } else { t };
    // The upper tail over e^(-t^2 / 2), in (t - 3) / (t + 3), to 1e-8.
    let ratio = polynomial::<S, 10>(
        (t - 3.0) / (t + 3.0),
        [
            5.267_638_7e-5,
            1.145_045_5e-4,
            -3.385_459e-4,
            -9.828_224e-4,
            0.002_904_213_7,
            0.006_131_811,
            -0.046_213_236,
            0.123_225_056,
            -0.206_402_61,
            0.121_513_95,
        ],
    );
    // The square's rounding error would be magnified by its own size: carry it along.
    let square = t * t;
    let high = f32::from_bits(t.to_bits() & 0xffff_f000);
    let low = t - high;
    let split = (high * high - square) + (high + t) * low;
    let error = if S::FUSED { S::mul_add(t, t, -square) } else { split };
    let tail = exp_below::<S>(-0.5 * square, Some(-0.5 * error)) * ratio;
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::super::Portable;
    use super::*;

    /// Tries a function on every 1009th float, and on what is special.
    fn check(got: fn(f32) -> f32, exact: fn(f64) -> f64, tolerance: f64) {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 1e-45, -1e-45];
        let all = (0..=u32::MAX / 1009).map(|i| f32::from_bits(i * 1009));
        for x in all.chain(special) {
            let (got, exact) = (got(x), exact(f64::from(x)));
            let rounded = exact as f32;
            if rounded.is_nan() || rounded.is_infinite() || got.is_infinite() {
                let near = f64::from(f32::MAX) * 1e-6;
                let edge = got.is_infinite() != rounded.is_infinite()
                    && (f64::from(f32::MAX) - exact.abs()).abs() < near;
                assert!(
                    (got.is_nan() && rounded.is_nan()) || got == rounded || edge,
                    "{x:e}: {got:e}, not {exact:e}"
                );
            } else {
                // Among subnormals, one unit of the last place.
                let bound = (exact.abs() * tolerance).max(1.5e-45);
                assert!((f64::from(got) - exact).abs() <= bound, "{x:e}: {got:e}, not {exact:e}");
            }
        }
    }

    #[test]
    fn exponentials_and_logarithms() {
        check(exp::<Portable>, f64::exp, 2e-7);
        check(log::<Portable>, f64::ln, 2e-7);
    }

    #[test]
    fn exponentials_of_what_is_not_positive() {
        check(
            |x| exp_down::<Portable>(-x.abs()),
            |x| if x.abs() > 87.0 { 0.0 } else { (-x.abs()).exp() },
            2e-7,
        );
        assert_eq!(exp_down::<Portable>(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp_down::<Portable>(0.0), 1.0);
    }

    #[test]
    fn activations() {
        check(tanh::<Portable>, f64::tanh, 3e-7);
        check(sigmoid::<Portable>, |x| 1.0 / (1.0 + (-x).exp()), 3e-7);
        check(normal_cdf::<Portable>, |x| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2), 1e-6);
        assert!(tanh::<Portable>(-0.0).is_sign_negative());
    }
}
