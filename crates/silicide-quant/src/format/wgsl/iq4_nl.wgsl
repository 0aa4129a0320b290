// iq4_nl: 32 elements in 18 bytes. x = scale * level[code].
//
//   bytes 0..2    scale, f16
//   bytes 2..18   codes: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 18u;
    return half_$NAME(block) * level_$NAME(nibble_$NAME(block + 2u, at & 31u));
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = nibbles_$NAME(block + 2u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    return mat2x4<f32>(scale * levels_$NAME(codes.x), scale * levels_$NAME(codes.y));
}

// GEMV.
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let codes = nibble_words_$NAME(head, offsets);
    let scale = widened_$NAME($NAME[head] >> offsets.scale);
    return Codes_$NAME(levels_of_$NAME(codes), scale);
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scale * (products.x + products.y);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, vec2<f32>(codes.scale), vec2<f32>());
}
