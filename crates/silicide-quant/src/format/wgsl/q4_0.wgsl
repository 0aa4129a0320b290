// q4_0: 32 elements in 18 bytes. x = scale * (code - 8).
//
//   bytes 0..2    scale, f16
//   bytes 2..18   codes: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 18u;
    return (f32(nibble_$NAME(block + 2u, at & 31u)) - 8.0) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = nibbles_$NAME(block + 2u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 8.0) * scale, (lanes_$NAME(codes.y) - 8.0) * scale);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = octet_$NAME(block + 2u + (at & 15u));
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = (codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        (lanes_$NAME(low.x) - 8.0) * scale, (lanes_$NAME(low.y) - 8.0) * scale,
        (lanes_$NAME(high.x) - 8.0) * scale, (lanes_$NAME(high.y) - 8.0) * scale,
    );
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
    // High nibbles times 16.
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = codes & vec2<u32>(0xf0f0f0f0u);
    let scale = widened_$NAME($NAME[head] >> select(16u, 0u, place.is_low));
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)), scale
    );
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, x: mat4x4<f32>, sums: vec2<f32>) -> f32 {
    let high = last_eight_$NAME(0.0, codes.values, x);
    let sum = first_eight_$NAME(high * 0.0625 - 8.0 * (sums.x + sums.y), codes.values, x);
    return start + codes.scale * sum;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scale * vec2<f32>(1.0, 0.0625), vec2<f32>(-8.0 * codes.scale));
}
