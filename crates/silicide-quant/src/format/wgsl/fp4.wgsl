// Twice the value of an E2M1 float (a sign, two bits of exponent, one of mantissa), which is an integer:
// 0, 1, 2, 3, 4, 6, 8, 12.
fn doubled_$NAME(code: u32) -> f32 {
    // The magnitudes, a nibble for each.
    let magnitude = f32((0xc8643210u >> ((code & 7u) << 2u)) & 15u);
    return bitcast<f32>(bitcast<u32>(magnitude) | ((code & 8u) << 28u));
}
