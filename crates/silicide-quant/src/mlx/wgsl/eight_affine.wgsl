// Code `i` of eight that begin at the lowest bit of two words.
fn of_eight_$NAME(low: u32, high: u32, i: u32) -> f32 {
    let bit = i * BITS_$NAME;
    let mask = (1u << BITS_$NAME) - 1u;
    if bit >= 32u {
        return f32((high >> (bit - 32u)) & mask);
    }
    if bit + BITS_$NAME <= 32u {
        return f32((low >> bit) & mask);
    }
    return f32(((low >> bit) | (high << (32u - bit))) & mask);
}
// Eight elements, the first of which is a multiple of eight: eight codes lie in at most two words.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let words = p.$NAME_offset + (at >> 5u) * BITS_$NAME;
    let bit = (at & 31u) * BITS_$NAME;
    let first = $NAME[words + (bit >> 5u)];
    let second = $NAME[words + ((bit + 8u * BITS_$NAME - 1u) >> 5u)];
    let shift = bit & 31u;
    let low = select((first >> shift) | (second << ((32u - shift) & 31u)), first, shift == 0u);
    let high = second >> shift;
    let scale = load_$NAME_scales(at / GROUP_$NAME);
    let bias = load_$NAME_biases(at / GROUP_$NAME);
    let codes = mat2x4<f32>(
        of_eight_$NAME(low, high, 0u), of_eight_$NAME(low, high, 1u),
        of_eight_$NAME(low, high, 2u), of_eight_$NAME(low, high, 3u),
        of_eight_$NAME(low, high, 4u), of_eight_$NAME(low, high, 5u),
        of_eight_$NAME(low, high, 6u), of_eight_$NAME(low, high, 7u),
    );
    return mat2x4<f32>(scale * codes[0] + bias, scale * codes[1] + bias);
}
