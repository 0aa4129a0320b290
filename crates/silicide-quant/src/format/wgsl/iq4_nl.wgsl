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

// GEMV. A block begins in the low or in the high half of a word.
const PERIOD_$NAME: u32 = 64u;
const STEP_$NAME: u32 = 9u;
struct Place_$NAME {
    is_low: bool,
    // The word before the middle of which the codes begin, where blocks begin in the low half.
    code: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn block_start_$NAME(at: u32) -> u32 {
    return p.$NAME_offset + (at >> 5u) * 18u;
}
fn head_$NAME(at: u32) -> u32 {
    return block_start_$NAME(at) >> 2u;
}
fn place_$NAME(at: u32, inside: u32) -> Place_$NAME {
    return Place_$NAME((block_start_$NAME(at) & 2u) == 0u, (inside & 8u) >> 2u);
}
fn codes_$NAME(head: u32, place: Place_$NAME) -> Codes_$NAME {
    let code = head + place.code;
    let words = vec3<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u]);
    let codes = select(words.yz, middle_$NAME(words), place.is_low);
    let scale = widened_$NAME($NAME[head] >> select(16u, 0u, place.is_low));
    return Codes_$NAME(levels_of_$NAME(codes), scale);
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, x: mat4x4<f32>, sums: vec2<f32>) -> f32 {
    let low = first_eight_$NAME(0.0, codes.values, x);
    return start + codes.scale * last_eight_$NAME(low, codes.values, x);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, vec2<f32>(codes.scale), vec2<f32>());
}
