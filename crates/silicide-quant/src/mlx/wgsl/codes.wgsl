// The plane of codes: BITS bits each, packed into words, lowest bits first; 32 codes are BITS whole words. The argument
// begins at word `p.$NAME_offset` of the binding. A scale belongs to GROUP elements.
override BITS_$NAME: u32 = 4u;
override GROUP_$NAME: u32 = 32u;
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;

// The code of element `at`.
fn code_$NAME(at: u32) -> u32 {
    let words = p.$NAME_offset + (at >> 5u) * BITS_$NAME;
    let bit = (at & 31u) * BITS_$NAME;
    let low = $NAME[words + (bit >> 5u)];
    let high = $NAME[words + ((bit + BITS_$NAME - 1u) >> 5u)];
    let shift = bit & 31u;
    // A code that lies in one word is whole in the first part, and the second adds only bits above it or the same.
    return ((low >> shift) | (high << ((32u - shift) & 31u))) & ((1u << BITS_$NAME) - 1u);
}

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

// An E4M3 float: sign, four bits of exponent, three of mantissa. Subnormals are eighths of 2^-6. E4M3 has no infinity; NaN
// has all bits set but the sign.
fn small_$NAME(byte: u32) -> f32 {
    let exponent = (byte >> 3u) & 15u;
    let mantissa = byte & 7u;
    let normal = bitcast<f32>(((exponent + 120u) << 23u) | (mantissa << 20u));
    let magnitude = select(normal, f32(mantissa) * 0.001953125, exponent == 0u);
    let value = select(magnitude, bitcast<f32>(0x7fc00000u | (byte & 0u)), (byte & 0x7fu) == 0x7fu);
    return select(value, -value, byte > 127u);
}
