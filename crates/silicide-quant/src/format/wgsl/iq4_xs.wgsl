// iq4_xs: 256 elements in 136 bytes, 8 groups of 32. x = scale * (group_scale - 32) * level[code].
//
//   bytes 0..2    scale, f16
//   bytes 2..4    high two bits of the group_scales
//   bytes 4..8    low four bits of the group_scales, a nibble for a group
//   bytes 8..136  codes, 16 bytes for a group: low nibbles are its elements 0..16, high nibbles 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    return scale * level_$NAME(nibble_$NAME(block + 8u + (group << 4u), at & 31u));
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    let codes = nibbles_$NAME(block + 8u + (group << 4u) + (at & 15u), (at >> 2u) & 4u);
    return mat2x4<f32>(scale * levels_$NAME(codes.x), scale * levels_$NAME(codes.y));
}

// GEMV. Blocks are whole words.
const PERIOD_$NAME: u32 = 256u;
const STEP_$NAME: u32 = 34u;
struct Offsets_$NAME {
    code: u32,
    // Bits of the sub_scale.
    low_shift: u32,
    high_shift: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset >> 2u) + (at >> 8u) * 34u;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let group = (inside >> 5u) & 7u;
    return Offsets_$NAME(2u + (group << 2u) + ((inside & 8u) >> 2u), group << 2u, 16u + (group << 1u));
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let code = head + offsets.code;
    let first = $NAME[head];
    let sub = (($NAME[head + 1u] >> offsets.low_shift) & 15u) | (((first >> offsets.high_shift) & 3u) << 4u);
    let scale = widened_$NAME(first) * (f32(sub) - 32.0);
    return Codes_$NAME(levels_of_$NAME(vec2<u32>($NAME[code], $NAME[code + 1u])), scale);
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
