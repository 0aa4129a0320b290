// `value` times 2^(exponent - bias), where exponent 255 means infinity. In two steps, as the power may be below the normal
// range, where devices may see zero, while the product is not.
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
