// Twice a 4-bit float: sign, two bits of exponent, one of mantissa.
fn doubled_$NAME(code: u32) -> f32 {
    let index = code & 7u;
    let magnitude = index + u32(index > 4u) + u32(index > 5u) + 3u * u32(index > 6u);
    return select(f32(magnitude), -f32(magnitude), code > 7u);
}
