// Rounds f32 to f16, to nearest even; NaN becomes quiet and keeps its sign. In integers, because a device may round its own
// conversion toward zero and flush subnormals.
fn narrow_$NAME(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if size > 0x7f800000u {
        return sign | 0x7e00u;
    }
    if size >= 0x38800000u {
        // Normal: drop 13 bits, move the exponent; a carry out of the top is infinity.
        let kept = (size + 0xfffu + ((size >> 13u) & 1u)) >> 13u;
        return sign | min(kept - 0x1c000u, 0x7c00u);
    }
    if size < 0x33000000u {
        return sign;
    }
    // Subnormal: the significand in units of 2^-24.
    let significand = (size & 0x7fffffu) | 0x800000u;
    let shift = 126u - (size >> 23u);
    let round = (1u << (shift - 1u)) - 1u + ((significand >> shift) & 1u);
    return sign | ((significand + round) >> shift);
}
