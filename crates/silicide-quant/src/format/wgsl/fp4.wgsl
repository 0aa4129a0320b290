// Twice the value of an E2M1 float (a sign, two bits of exponent, one of mantissa), which is an integer:
// 0, 1, 2, 3, 4, 6, 8, 12.
fn doubled_$NAME(code: u32) -> f32 {
    let index = code & 7u;
    let magnitude = index + u32(index > 4u) + u32(index > 5u) + 3u * u32(index > 6u);
    return select(f32(magnitude), -f32(magnitude), code > 7u);
}
