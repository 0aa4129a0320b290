// q2_k: 256 elements in 84 bytes, 16 sub-blocks of 16.
// x = scale * sub_scale * code - minimum * sub_minimum.
//
//   bytes 0..16   a sub-block each: sub_scale in the low nibble, sub_minimum in the high one
//   bytes 16..80  codes: byte 32 * h + i has elements 128 * h + i + (0, 32, 64, 96), two bits each
//   bytes 80..82  scale, f16
//   bytes 82..84  minimum, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let code = (byte_$NAME(block + 16u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    return half_$NAME(block + 80u) * f32(sub & 15u) * f32(code) - half_$NAME(block + 82u) * f32(sub >> 4u);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let position = block + 16u + ((group >> 2u) << 5u) + i;
    let codes = (octet_$NAME(position) >> vec2<u32>((group & 3u) << 1u))
        & vec2<u32>(0x03030303u);
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    let scale = half_$NAME(block + 80u) * f32(sub & 15u);
    let least = half_$NAME(block + 82u) * f32(sub >> 4u);
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}

// Elements of two neighbouring groups, whose codes lie in the same bytes.
const SPREAD_$NAME: u32 = 32u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 32u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}

// GEMV. Blocks are whole words.
const PERIOD_$NAME: u32 = 256u;
const STEP_$NAME: u32 = 21u;
struct Offsets_$NAME {
    code: u32,
    code_shift: u32,
    sub: u32,
    sub_shift: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scales: vec2<f32>,
    minima: vec2<f32>,
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset >> 2u) + (at >> 8u) * 21u;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let i = inside & 31u;
    let group = (inside >> 5u) & 6u;
    return Offsets_$NAME(4u + ((group & 4u) << 1u) + (i >> 2u), (group & 2u) << 1u, group >> 1u, (i & 16u) >> 1u);
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let code = head + offsets.code;
    let codes = vec2<u32>($NAME[code], $NAME[code + 1u]) >> vec2<u32>(offsets.code_shift);
    // Codes of the second group times 4, minima times 16.
    let low = codes & vec2<u32>(0x03030303u);
    let high = codes & vec2<u32>(0x0c0c0c0cu);
    let subs = $NAME[head + offsets.sub] >> offsets.sub_shift;
    let scales = halves_$NAME($NAME[head + 20u]);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scales.x * (lanes_$NAME(subs & 0x000f000fu).xz * vec2<f32>(1.0, 0.25)),
        scales.y * 0.0625 * lanes_$NAME(subs & 0x00f000f0u).xz,
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

// GEMM. A step is two sub-blocks.
fn column_$NAME(first: u32) -> u32 {
    return head_$NAME(first);
}
fn run_$NAME(column: u32, depth: u32, half: u32) -> mat4x4<f32> {
    let head = column + (depth >> 8u) * 21u;
    let group = (depth >> 5u) & 7u;
    let code = head + half * 4u + (4u + ((group >> 2u) << 3u));
    let words = vec4<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u], $NAME[code + 3u]);
    let codes = (words >> vec4<u32>((group & 3u) << 1u)) & vec4<u32>(0x03030303u);
    let sub = $NAME[head + (group >> 1u)] >> (((group & 1u) << 4u) + (half << 3u));
    let scales = halves_$NAME($NAME[head + 20u]) * vec2<f32>(f32(sub & 15u), f32((sub >> 4u) & 15u));
    let values = mat4x4<f32>(lanes_$NAME(codes.x), lanes_$NAME(codes.y), lanes_$NAME(codes.z), lanes_$NAME(codes.w));
    return scaled_$NAME(values, scales.xx, -scales.yy);
}
