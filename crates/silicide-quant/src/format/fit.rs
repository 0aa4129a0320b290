//! Pieces of encoders: extremes, sums in a fixed order, rounding, and the search for scales of least squared error.

use half::f16;

/// Sums run over this many lanes, whatever the machine has, and so produce the same bits everywhere.
const LANES: usize = 8;

/// `function` of every value. A plain loop: `map` of arrays is seldom inlined, and what is not inlined is not compiled
/// for the instruction set.
#[inline(always)]
pub(crate) fn each<T: Copy + Default, const N: usize>(
    values: &[f32; N],
    function: impl Fn(f32) -> T,
) -> [T; N] {
    let mut results = [T::default(); N];
    for i in 0..N {
        results[i] = function(values[i]);
    }
    results
}

/// Returns the sum of `N` terms, a multiple of eight.
#[inline(always)]
pub(crate) fn sum<const N: usize>(term: impl Fn(usize) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    for start in (0..N).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    for width in [4, 2, 1] {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
    }
    lanes[0]
}

/// The least and the greatest of `N` values, a multiple of eight. NaN is passed over.
#[inline(always)]
pub(crate) fn extremes<const N: usize>(values: &[f32; N]) -> (f32, f32) {
    let (mut least, mut greatest) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
    for chunk in values.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            // Comparisons, not `min` and `max`: those take care of NaN, which costs.
            least[lane] = if chunk[lane] < least[lane] { chunk[lane] } else { least[lane] };
            greatest[lane] = if chunk[lane] > greatest[lane] { chunk[lane] } else { greatest[lane] };
        }
    }
    for width in [4, 2, 1] {
        for i in 0..width {
            least[i] = if least[i + width] < least[i] { least[i + width] } else { least[i] };
            greatest[i] = if greatest[i + width] > greatest[i] { greatest[i + width] } else { greatest[i] };
        }
    }
    (least[0], greatest[0])
}

/// The value of the greatest magnitude, the first if there are several.
#[inline(always)]
pub(crate) fn extreme<const N: usize>(values: &[f32; N]) -> f32 {
    let (least, greatest) = extremes(values);
    if greatest > -least {
        greatest
    } else if -least > greatest {
        least
    } else {
        values.iter().copied().find(|value| value.abs() == greatest).unwrap_or(0.0)
    }
}

/// `1 / x`, or 0 for 0: the inverse scale of a block of zeros.
#[inline(always)]
pub(crate) fn inverse(x: f32) -> f32 {
    if x == 0.0 { 0.0 } else { 1.0 / x }
}

/// Returns the nearest integer, halves to even, of a magnitude below 2^22. Every instruction set adds, few round.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> f32 {
    const ONES: f32 = 12_582_912.0;
    (x + ONES) - ONES
}

/// Returns the nearest integer, halves away from zero, saturated.
#[inline(always)]
pub(crate) fn nearest_i8(x: f32) -> i8 {
    // The float below one half: adding one half itself would carry the float below it to the next integer.
    (x + 0.499_999_97_f32.copysign(x)) as i8
}

/// Returns the nearest half. A scale too great for one becomes the greatest.
#[inline(always)]
pub(crate) fn store_half(x: f32) -> [u8; 2] {
    f16::from_f32(x.clamp(-65_504.0, 65_504.0)).to_le_bytes()
}

/// Steps of a level or so by which a range is stretched or shrunk in search of a better scale.
const STRETCHES: [f32; 17] = [
    -1.0, -0.875, -0.75, -0.625, -0.5, -0.375, -0.25, -0.125, 0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75,
    0.875, 1.0,
];

/// `values` nearly equal `scale * code - min`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AffineFit {
    pub(crate) scale: f32,
    pub(crate) min: f32,
}

/// The best scale and minimum found for codes `0..=top`. The scale is not negative; neither is the minimum, unless it is
/// `FREE`.
#[inline(always)]
pub(crate) fn fit_affine<const N: usize, const FREE: bool>(values: &[f32; N], top: f32) -> AffineFit {
    let (least, greatest) = extremes(values);
    let least = if least < 0.0 || FREE { least } else { 0.0 };
    let span = greatest - least;
    let mut best = AffineFit { scale: 0.0, min: -least };
    if !(span > 0.0 && span.is_finite()) {
        return best;
    }
    let count = N as f32;
    let total = sum::<N>(|i| values[i]);
    let squares = sum::<N>(|i| values[i] * values[i]);
    let mut least_error = f32::INFINITY;
    for stretch in STRETCHES {
        let factor = (top + stretch) / span;
        let codes = each(values, |value| nearest(((value - least) * factor).clamp(0.0, top)));
        let code_sum = sum::<N>(|i| codes[i]);
        let code_squares = sum::<N>(|i| codes[i] * codes[i]);
        let products = sum::<N>(|i| codes[i] * values[i]);
        // Least squares for `scale * code + offset`, and with no offset where that would be positive.
        let determinant = count * code_squares - code_sum * code_sum;
        let mut scale = (count * products - total * code_sum) * inverse(determinant);
        let mut offset = (code_squares * total - code_sum * products) * inverse(determinant);
        if (offset > 0.0 && !FREE) || determinant <= 0.0 {
            scale = products * inverse(code_squares);
            offset = 0.0;
        }
        let error = squares
            + scale * (scale * code_squares + 2.0 * (offset * code_sum - products))
            + offset * (count * offset - 2.0 * total);
        if error < least_error && scale > 0.0 {
            least_error = error;
            best = AffineFit { scale, min: -offset };
        }
    }
    best
}

/// The best scale found for codes `-low..=high`, where `low` is `high` or one more. It may be negative.
#[inline(always)]
pub(crate) fn fit_symmetric<const N: usize>(values: &[f32; N], low: f32, high: f32) -> f32 {
    fit_scale(values, low, |scaled| nearest(scaled.clamp(-low, high)))
}

/// Returns the best scale found. `level` returns the level nearest to a scaled value; `-reach` is the farthest level.
#[inline(always)]
pub(crate) fn fit_scale<const N: usize>(values: &[f32; N], reach: f32, level: impl Fn(f32) -> f32) -> f32 {
    let extreme = extreme(values);
    if extreme == 0.0 || !extreme.is_finite() {
        return 0.0;
    }
    // With levels of up to 127 a step of one is nothing; weights need more clipping than that.
    let width = (reach.abs() / 16.0).max(1.0);
    let (mut best, mut most) = (0.0, 0.0);
    for stretch in STRETCHES {
        let factor = -(reach + stretch * width) / extreme;
        let levels = each(values, |value| level(value * factor));
        let level_squares = sum::<N>(|i| levels[i] * levels[i]);
        let products = sum::<N>(|i| levels[i] * values[i]);
        // The squared error of the best scale is that of zeros less this.
        let gain = products * products * inverse(level_squares);
        if gain > most {
            most = gain;
            best = products * inverse(level_squares);
        }
    }
    best
}

/// The squared error of `levels * scale + offset`.
#[inline(always)]
pub(crate) fn error_of<const N: usize>(values: &[f32; N], levels: &[f32; N], scale: f32, offset: f32) -> f32 {
    sum::<N>(|i| {
        let difference = levels[i] * scale + offset - values[i];
        difference * difference
    })
}
