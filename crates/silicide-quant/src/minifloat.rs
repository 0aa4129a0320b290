//! Floats of 4 and 8 bits: E2M1 elements, E4M3 elements and scales, E8M0 scales. Neighbours: `format::fp4` and `mlx`.

/// Returns twice the E2M1 float of four bits: 0, 1, 2, 3, 4, 6, 8, 12 and, with the top bit, their negatives.
#[inline(always)]
pub(crate) fn e2m1_doubled(code: u8) -> i8 {
    // Sums of comparisons, as compilers vectorise those well and tables badly.
    let index = code & 7;
    let magnitude = (index + u8::from(index > 4) + u8::from(index > 5) + 3 * u8::from(index > 6)) as i8;
    if code & 8 == 0 { magnitude } else { -magnitude }
}

/// Where the magnitudes of E2M1, doubled, meet: the midpoints between neighbours, and the step between them.
const E2M1_STEPS: [(f32, u8); 7] = [(0.5, 1), (1.5, 1), (2.5, 1), (3.5, 1), (5.0, 2), (7.0, 2), (10.0, 4)];

/// Returns the bits of the E2M1 float nearest to `x / 2`.
#[inline(always)]
pub(crate) fn nearest_e2m1(x: f32) -> u8 {
    let mut index = 0;
    for (midpoint, _) in E2M1_STEPS {
        index += u8::from(x.abs() > midpoint);
    }
    // Zero has no sign.
    if x < 0.0 && index > 0 { index | 8 } else { index }
}

/// Returns twice the E2M1 float nearest to `x / 2`.
#[inline(always)]
pub(crate) fn nearest_e2m1_doubled(x: f32) -> f32 {
    let mut magnitude = 0.0;
    for (midpoint, step) in E2M1_STEPS {
        magnitude += if x.abs() > midpoint { f32::from(step) } else { 0.0 };
    }
    magnitude.copysign(x)
}

/// `2^(exponent - 127)`. Exponent 255 is infinity.
#[inline(always)]
pub(crate) fn e8m0(exponent: u8) -> f32 {
    // 2^-127 is below the normal range.
    let bits = if exponent == 0 { 1 << 22 } else { u32::from(exponent) << 23 };
    f32::from_bits(bits)
}

/// `2^(exponent - 128)`, the scale that goes with doubled elements. Exponent 255 is not special here.
#[inline(always)]
pub(crate) fn e8m0_halved(exponent: u8) -> f32 {
    let bits = if exponent < 2 { 1 << (21 + exponent) } else { u32::from(exponent - 1) << 23 };
    f32::from_bits(bits)
}

/// E4M3 without its sign: four bits of exponent, biased by 7, three of mantissa. The pattern for NaN reads as zero.
#[inline(always)]
pub(crate) fn ue4m3(byte: u8) -> f32 {
    let magnitude = byte & 0x7f;
    if byte == 0x7f { 0.0 } else { e4m3_magnitude(magnitude) }
}

/// Returns the bits of the E4M3 float nearest to a magnitude; what is greater than 448 becomes that.
#[inline(always)]
pub(crate) fn nearest_ue4m3(x: f32) -> u8 {
    // The step between neighbours is an eighth of the power of two below, and no less than 2^-9.
    let power = f32::from_bits(x.max(0.015_625).to_bits() & 0x7f80_0000);
    let step = power * 0.125;
    let rounded = ((x.clamp(0.0, 448.0) / step + 12_582_912.0) - 12_582_912.0) * step;
    if rounded < 0.015_625 {
        (rounded * 512.0) as u8
    } else {
        let bits = rounded.to_bits();
        ((bits >> 20) - ((127 - 7) << 3)).min(0x7e) as u8
    }
}

/// E4M3 with its sign: no infinity, and all ones is NaN.
#[inline(always)]
pub(crate) fn e4m3(byte: u8) -> f32 {
    let magnitude = byte & 0x7f;
    let value = if magnitude == 0x7f { f32::NAN } else { e4m3_magnitude(magnitude) };
    if byte & 0x80 == 0 { value } else { -value }
}

#[inline(always)]
fn e4m3_magnitude(byte: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(byte >> 3), u32::from(byte & 7));
    if exponent == 0 {
        // Below the normal range: eighths of 2^-6.
        mantissa as f32 * 0.001_953_125
    } else {
        f32::from_bits((exponent + 127 - 7) << 23 | mantissa << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_lead_back() {
        for code in 0..16 {
            let doubled = f32::from(e2m1_doubled(code));
            assert_eq!(nearest_e2m1_doubled(doubled), doubled, "{code}");
            assert_eq!(nearest_e2m1(doubled), if code == 8 { 0 } else { code });
        }
        for code in 0..0x7f {
            assert_eq!(nearest_ue4m3(e4m3(code)), code);
            assert_eq!(e4m3(code | 0x80), -e4m3(code));
        }
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
        assert_eq!((e4m3(0x7e), e4m3(1), ue4m3(0x7f)), (448.0, 2f32.powi(-9), 0.0));
        assert_eq!((e8m0(0), e8m0(127), e8m0_halved(1)), (2f32.powi(-127), 1.0, 2f32.powi(-127)));
        for exponent in 0..=254 {
            assert_eq!(e8m0_halved(exponent), e8m0(exponent) * 0.5);
        }
    }

    #[test]
    fn the_nearest_small_float_is_found() {
        for i in 0..20_000 {
            let x = (i as f32 / 20_000.0).powi(3) * 500.0;
            let distance = |code: u8| (e4m3(code) - x).abs();
            let least = (0..0x7f).map(distance).fold(f32::INFINITY, f32::min);
            assert_eq!(distance(nearest_ue4m3(x)), least, "{x}");
        }
        assert_eq!((nearest_ue4m3(f32::INFINITY), nearest_ue4m3(1e-9)), (0x7e, 0));
    }
}
