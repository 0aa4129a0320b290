// Affine: x = scale * code + bias, with a scale and a bias for each group of GROUP elements.
fn load_$NAME(at: u32) -> f32 {
    let group = at / GROUP_$NAME;
    return load_$NAME_scales(group) * f32(code_$NAME(at)) + load_$NAME_biases(group);
}

// Eight codes lie in at most two words. `at` is a multiple of eight.
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

// Code `i` of eight that begin at the lowest bit of `low` and continue in `high`.
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
