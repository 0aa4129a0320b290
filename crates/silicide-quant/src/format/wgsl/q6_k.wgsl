// q6_k: 256 elements in 210 bytes, 16 sub-blocks of 16. x = scale * sub_scale * (code - 32).
// Each half of 128 elements has four groups of 32:
//
//   bytes 0..128    low four bits, 64 bytes for a half: low nibbles are runs 0 and 1, high nibbles runs 2 and 3
//   bytes 128..192  high two bits, 32 bytes for a half: byte i has element i of runs 0, 1, 2, 3
//   bytes 192..208  sub_scales, i8
//   bytes 208..210  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = (byte_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i) >> ((run >> 1u) << 2u)) & 15u;
    let high = (byte_$NAME(block + 128u + (part << 5u) + i) >> (run << 1u)) & 3u;
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return scale * (f32(low | (high << 4u)) - 32.0);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = nibbles_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i, (run >> 1u) << 2u);
    let position = block + 128u + (part << 5u) + i;
    let high = (octet_$NAME(position) >> vec2<u32>(run << 1u))
        & vec2<u32>(0x03030303u);
    let codes = low | (high << vec2<u32>(4u));
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return mat2x4<f32>(scale * (lanes_$NAME(codes.x) - 32.0), scale * (lanes_$NAME(codes.y) - 32.0));
}

// Both nibbles of eight bytes: elements of runs 0 and 2, or 1 and 3.
const SPREAD_$NAME: u32 = 64u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 1u;
    let codes = octet_$NAME(block + (part << 6u) + (run << 5u) + i);
    let tops = octet_$NAME(block + 128u + (part << 5u) + i) >> vec2<u32>(run << 1u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | ((tops & vec2<u32>(0x03030303u)) << vec2<u32>(4u));
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | (tops & vec2<u32>(0x30303030u));
    let sub = block + 192u + (part << 3u) + (run << 1u) + (i >> 4u);
    let scale = half_$NAME(block + 208u);
    let first = scale * signed_$NAME(sub);
    let second = scale * signed_$NAME(sub + 4u);
    return mat4x4<f32>(
        first * (lanes_$NAME(low.x) - 32.0), first * (lanes_$NAME(low.y) - 32.0),
        second * (lanes_$NAME(high.x) - 32.0), second * (lanes_$NAME(high.y) - 32.0),
    );
}

// GEMV. A block begins in the low or in the high half of a word.
const PERIOD_$NAME: u32 = 512u;
const STEP_$NAME: u32 = 105u;
struct Place_$NAME {
    is_low: bool,
    // Words of the low and of the high bits, and of the first sub_scale.
    low: u32,
    high: u32,
    sub: u32,
    // Bits.
    high_shift: u32,
    sub_shift: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scales: vec2<f32>,
}
fn block_start_$NAME(at: u32) -> u32 {
    return p.$NAME_offset + (at >> 8u) * 210u;
}
fn head_$NAME(at: u32) -> u32 {
    return block_start_$NAME(at) >> 2u;
}
fn place_$NAME(at: u32, inside: u32) -> Place_$NAME {
    let is_low = (block_start_$NAME(at) & 2u) == 0u;
    let i = inside & 31u;
    let part = (inside >> 7u) & 1u;
    let run = (inside >> 5u) & 1u;
    let sub = (part << 3u) + (run << 1u) + (i >> 4u) + select(2u, 0u, is_low);
    return Place_$NAME(
        is_low, (part << 4u) + (run << 3u) + (i >> 2u), 32u + (part << 3u) + (i >> 2u), 48u + (sub >> 2u),
        run << 1u, 24u - ((sub & 3u) << 3u),
    );
}
// Eight bytes from word `at` of the binding, or from its middle. The word behind them is the block's.
fn words_$NAME(at: u32, is_low: bool) -> vec2<u32> {
    let words = vec3<u32>($NAME[at], $NAME[at + 1u], $NAME[at + 2u]);
    return select(middle_$NAME(words), words.xy, is_low);
}
fn codes_$NAME(head: u32, place: Place_$NAME) -> Codes_$NAME {
    let codes = words_$NAME(head + place.low, place.is_low);
    let tops = words_$NAME(head + place.high, place.is_low) >> vec2<u32>(place.high_shift);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | ((tops & vec2<u32>(0x03030303u)) << vec2<u32>(4u));
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | (tops & vec2<u32>(0x30303030u));
    let scale = widened_$NAME($NAME[head + 52u] >> select(16u, 0u, place.is_low));
    let subs = vec2<u32>($NAME[head + place.sub], $NAME[head + place.sub + 1u]) << vec2<u32>(place.sub_shift);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scale * vec2<f32>(bitcast<vec2<i32>>(subs) >> vec2<u32>(24u)),
    );
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, x: mat4x4<f32>, sums: vec2<f32>) -> f32 {
    let low = first_eight_$NAME(-32.0 * sums.x, codes.values, x);
    let high = last_eight_$NAME(-32.0 * sums.y, codes.values, x);
    return start + codes.scales.x * low + codes.scales.y * high;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scales, -32.0 * codes.scales);
}
