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

// GEMV, for codes of 4 and 8 bits (`format/wgsl.rs`): a head is an element. Sixteen codes are BITS / 2 whole words.
const FACTORED_$NAME: bool = true;
const PERIOD_$NAME: u32 = 16u;
const STEP_$NAME: u32 = 16u;
struct Offsets_$NAME {
    unused: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    // Scale and bias.
    scales: vec2<f32>,
}
fn prepare_$NAME(lane: u32) {}
fn head_$NAME(at: u32) -> u32 {
    return at;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME();
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let word = p.$NAME_offset + head / (32u / BITS_$NAME);
    let scales = vec2<f32>(load_$NAME_scales(head / GROUP_$NAME), load_$NAME_biases(head / GROUP_$NAME));
    if BITS_$NAME == 4u {
        let near = nibbles_$NAME($NAME[word]);
        let far = nibbles_$NAME($NAME[word + 1u]);
        return Codes_$NAME(mat4x4<f32>(near[0], near[1], far[0], far[1]), scales);
    }
    return Codes_$NAME(
        mat4x4<f32>(
            bytes_$NAME($NAME[word]), bytes_$NAME($NAME[word + 1u]),
            bytes_$NAME($NAME[word + 2u]), bytes_$NAME($NAME[word + 3u]),
        ),
        scales,
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scales.x * (products.x + products.y) + codes.scales.y * (sums.x + sums.y);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    let scale = codes.scales.x;
    let bias = vec4<f32>(codes.scales.y);
    let values = codes.values;
    return mat4x4<f32>(scale * values[0] + bias, scale * values[1] + bias, scale * values[2] + bias, scale * values[3] + bias);
}
fn weights_$NAME(at: u32) -> mat4x4<f32> {
    return sixteen_$NAME(at);
}

// The bytes of a word, and its nibbles.
fn bytes_$NAME(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}
fn nibbles_$NAME(word: u32) -> mat2x4<f32> {
    let even = bytes_$NAME(word & 0x0f0f0f0fu);
    let odd = bytes_$NAME((word >> 4u) & 0x0f0f0f0fu);
    return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}
