// q4_k: 256 elements in 144 bytes, 8 sub-blocks of 32.
// x = scale * sub_scale * code - minimum * sub_minimum.
//
//   bytes 0..2     scale, f16
//   bytes 2..4     minimum, f16
//   bytes 4..16    sub_scales and sub_minima of 6 bits: see k_scales.wgsl
//   bytes 16..144  codes: low nibbles of 32 bytes are sub-block 2 * j, high nibbles sub-block 2 * j + 1

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 144u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let code = (byte_$NAME(block + 16u + ((s >> 1u) << 5u) + (at & 31u)) >> ((s & 1u) << 2u)) & 15u;
    return half_$NAME(block) * subs.x * f32(code) - half_$NAME(block + 2u) * subs.y;
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 144u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let codes = nibbles_$NAME(block + 16u + ((s >> 1u) << 5u) + (at & 31u), (s & 1u) << 2u);
    let scale = half_$NAME(block) * subs.x;
    let least = half_$NAME(block + 2u) * subs.y;
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}

// Both nibbles of eight bytes: elements of two neighbouring sub-blocks.
const SPREAD_$NAME: u32 = 32u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 8u) * 144u;
    let i = at & 31u;
    let s = (at >> 5u) & 6u;
    let codes = octet_$NAME(block + 16u + (s << 4u) + i);
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = (codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
    let subs = sub_pairs_$NAME(block + 4u, s);
    let scales = half_$NAME(block) * subs[0];
    let minima = half_$NAME(block + 2u) * subs[1];
    return mat4x4<f32>(
        scales.x * lanes_$NAME(low.x) - minima.x, scales.x * lanes_$NAME(low.y) - minima.x,
        scales.y * lanes_$NAME(high.x) - minima.y, scales.y * lanes_$NAME(high.y) - minima.y,
    );
}

// GEMV. Blocks are whole words.
const PERIOD_$NAME: u32 = 256u;
const STEP_$NAME: u32 = 36u;
struct Offsets_$NAME {
    code: u32,
    sub: SubOffsets_$NAME,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scales: vec2<f32>,
    minima: vec2<f32>,
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset >> 2u) + (at >> 8u) * 36u;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let s = (inside >> 5u) & 6u;
    return Offsets_$NAME(4u + (s << 2u) + ((inside & 31u) >> 2u), sub_offsets_$NAME(s));
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let codes = vec2<u32>($NAME[head + offsets.code], $NAME[head + offsets.code + 1u]);
    // High nibbles times 16.
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = codes & vec2<u32>(0xf0f0f0f0u);
    let subs = subs_of_words_$NAME(vec3<u32>($NAME[head + 1u], $NAME[head + 2u], $NAME[head + 3u]), offsets.sub);
    let scales = halves_$NAME($NAME[head]);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scales.x * vec2<f32>(subs.x, subs.y * 0.0625),
        scales.y * subs.zw,
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    let least = codes.minima.x * sums.x + codes.minima.y * sums.y;
    return start - least + codes.scales.x * products.x + codes.scales.y * products.y;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scales, -codes.minima);
}

// GEMM. A step is one sub-block.
fn column_$NAME(first: u32) -> u32 {
    return head_$NAME(first);
}
fn run_$NAME(column: u32, depth: u32, half: u32) -> mat4x4<f32> {
    let head = column + (depth >> 8u) * 36u;
    let s = (depth >> 5u) & 7u;
    let code = head + half * 4u + (4u + ((s >> 1u) << 3u));
    let words = vec4<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u], $NAME[code + 3u]);
    let codes = (words >> vec4<u32>((s & 1u) << 2u)) & vec4<u32>(0x0f0f0f0fu);
    let subs = subs_of_$NAME(vec3<u32>($NAME[head + 1u], $NAME[head + 2u], $NAME[head + 3u]), s);
    let scales = halves_$NAME($NAME[head]) * subs;
    let values = mat4x4<f32>(lanes_$NAME(codes.x), lanes_$NAME(codes.y), lanes_$NAME(codes.z), lanes_$NAME(codes.w));
    return scaled_$NAME(values, scales.xx, -scales.yy);
}
