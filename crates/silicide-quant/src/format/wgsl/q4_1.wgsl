// q4_1: 32 elements in 20 bytes. x = scale * code + minimum.
//
//   bytes 0..2    scale, f16
//   bytes 2..4    minimum, f16
//   bytes 4..20   codes: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 20u;
    return f32(nibble_$NAME(block + 4u, at & 31u)) * half_$NAME(block) + half_$NAME(block + 2u);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 20u;
    let codes = nibbles_$NAME(block + 4u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat2x4<f32>(lanes_$NAME(codes.x) * scale + least, lanes_$NAME(codes.y) * scale + least);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 20u;
    let codes = octet_$NAME(block + 4u + (at & 15u));
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = (codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat4x4<f32>(
        lanes_$NAME(low.x) * scale + least, lanes_$NAME(low.y) * scale + least,
        lanes_$NAME(high.x) * scale + least, lanes_$NAME(high.y) * scale + least,
    );
}

// GEMV. Blocks are whole words.
const PERIOD_$NAME: u32 = 32u;
const STEP_$NAME: u32 = 5u;
struct Offsets_$NAME {
    code: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    // Scale and minimum.
    scales: vec2<f32>,
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset >> 2u) + (at >> 5u) * 5u;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME(1u + ((inside & 8u) >> 2u));
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let codes = vec2<u32>($NAME[head + offsets.code], $NAME[head + offsets.code + 1u]);
    // High nibbles times 16.
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = codes & vec2<u32>(0xf0f0f0f0u);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        halves_$NAME($NAME[head]),
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    let product = products.x + products.y * 0.0625;
    return start + codes.scales.x * product + codes.scales.y * (sums.x + sums.y);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scales.x * vec2<f32>(1.0, 0.0625), codes.scales.yy);
}
