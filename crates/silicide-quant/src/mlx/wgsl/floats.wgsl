// The small floats of scales and codes: E8M0 and E4M3.

// `value` times 2^(exponent - bias); exponent 255 is infinity. In two steps: the power may be subnormal, which devices may
// flush to zero, while the product is normal.
fn scaled_$NAME(value: f32, exponent: u32, bias: i32) -> f32 {
    if exponent == 255u {
        return value * bitcast<f32>(0x7f800000u | (exponent & 0u));
    }
    let power = i32(exponent) - bias;
    let half = power / 2;
    let first = bitcast<f32>(u32(half + 127) << 23u);
    let second = bitcast<f32>(u32(power - half + 127) << 23u);
    return value * first * second;
}

// An E4M3 float: sign, four bits of exponent, three of mantissa. Subnormals are eighths of 2^-6; there is no infinity; NaN
// has all bits set but the sign.
fn small_$NAME(byte: u32) -> f32 {
    let exponent = (byte >> 3u) & 15u;
    let mantissa = byte & 7u;
    let normal = bitcast<f32>(((exponent + 120u) << 23u) | (mantissa << 20u));
    let magnitude = select(normal, f32(mantissa) * 0.001953125, exponent == 0u);
    let value = select(magnitude, bitcast<f32>(0x7fc00000u | (byte & 0u)), (byte & 0x7fu) == 0x7fu);
    return select(value, -value, byte > 127u);
}
