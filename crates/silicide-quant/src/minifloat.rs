//! Floats of 4 and 8 bits: E2M1 elements, E4M3 elements and scales, E8M0 scales. Neighbours: `format::fp4` and `mlx`.

/// Twice the E2M1 float of four bits: 0, 1, 2, 3, 4, 6, 8, 12 and, with the top bit, their negatives.
#[inline(always)]
pub(crate) fn e2m1_doubled(code: u8) -> i8 {
    // Sums of comparisons, as compilers vectorise those well and tables badly.
    let index = code & 7;
    let magnitude = (index + u8::from(index > 4) + u8::from(index > 5) + 3 * u8::from(index > 6)) as i8;
    if code & 8 == 0 { magnitude } else { -magnitude }
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
