// E4M3 with its sign: below the normal range eighths of 2^-6, no infinity, and all ones is NaN.
fn small_$NAME(byte: u32) -> f32 {
    let exponent = (byte >> 3u) & 15u;
    let mantissa = byte & 7u;
    let normal = bitcast<f32>(((exponent + 120u) << 23u) | (mantissa << 20u));
    let magnitude = select(normal, f32(mantissa) * 0.001953125, exponent == 0u);
    let value = select(magnitude, bitcast<f32>(0x7fc00000u | (byte & 0u)), (byte & 0x7fu) == 0x7fu);
    return select(value, -value, byte > 127u);
}
