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
const BLOCK_$NAME: u32 = 256u;
const BYTES_$NAME: u32 = 210u;
const PERIOD_$NAME: u32 = 512u;
const STEP_$NAME: u32 = 105u;
struct Offsets_$NAME {
    is_low: bool,
    // Words of the low and of the high bits, and of the first sub_scale: where blocks begin in the high half, and in the low one. What
    // columns share needs no registers of each.
    low: u32,
    high: u32,
    sub: vec2<u32>,
    // Bits.
    high_shift: u32,
    sub_shift: vec2<u32>,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scales: vec2<f32>,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let is_low = is_low_$NAME(at);
    let i = inside & 31u;
    let part = (inside >> 7u) & 1u;
    let run = (inside >> 5u) & 1u;
    let sub = vec2<u32>((part << 3u) + (run << 1u) + (i >> 4u)) + vec2<u32>(2u, 0u);
    return Offsets_$NAME(
        is_low, (part << 4u) + (run << 3u) + (i >> 2u), 32u + (part << 3u) + (i >> 2u),
        vec2<u32>(48u) + (sub >> vec2<u32>(2u)), run << 1u, (~sub & vec2<u32>(3u)) << vec2<u32>(3u),
    );
}
// Eight bytes from word `at` of the binding, or from its middle. The word behind them is the block's.
fn words_$NAME(at: u32, is_low: bool) -> vec2<u32> {
    let words = vec3<u32>($NAME[at], $NAME[at + 1u], $NAME[at + 2u]);
    return select(middle_$NAME(words), words.xy, is_low);
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let codes = words_$NAME(head + offsets.low, offsets.is_low);
    let tops = words_$NAME(head + offsets.high, offsets.is_low) >> vec2<u32>(offsets.high_shift);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | ((tops & vec2<u32>(0x03030303u)) << vec2<u32>(4u));
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | (tops & vec2<u32>(0x30303030u));
    let scale = scale_of_$NAME($NAME[head + 52u], offsets.is_low);
    let sub = head + select(offsets.sub.x, offsets.sub.y, offsets.is_low);
    let sub_shift = select(offsets.sub_shift.x, offsets.sub_shift.y, offsets.is_low);
    let subs = vec2<u32>($NAME[sub], $NAME[sub + 1u]) << vec2<u32>(sub_shift);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scale * vec2<f32>(bitcast<vec2<i32>>(subs) >> vec2<u32>(24u)),
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return -32.0 * sums;
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scales.x * products.x + codes.scales.y * products.y;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scales, -32.0 * codes.scales);
}

// GEMM. A step is two sub-blocks.
fn column_$NAME(first: u32) -> u32 {
    return block_start_$NAME(first);
}
fn run_$NAME(column: u32, depth: u32, half: u32) -> mat4x4<f32> {
    let block = column + (depth >> 8u) * 210u;
    let head = block >> 2u;
    let middle = (block & 2u) >> 1u;
    let part = (depth >> 7u) & 1u;
    let run = (depth >> 5u) & 3u;
    let first = head + half * 4u;
    let last = first + middle;
    let low_at = (part << 4u) + ((run & 1u) << 3u);
    let high_at = 32u + (part << 3u);
    let lows = shifted_$NAME(first + low_at, last + low_at, middle * 16u + ((run >> 1u) << 2u));
    let highs = shifted_$NAME(first + high_at, last + high_at, middle * 16u + (run << 1u));
    let codes = (lows & vec4<u32>(0x0f0f0f0fu)) | ((highs & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
    let sub = block + half + (192u + ((depth >> 4u) & 14u));
    let sub_scale = f32(bitcast<i32>($NAME[sub >> 2u] << ((~sub & 3u) << 3u)) >> 24u);
    let scale = widened_$NAME($NAME[head + 52u] >> (middle * 16u)) * sub_scale;
    let values = mat4x4<f32>(lanes_$NAME(codes.x), lanes_$NAME(codes.y), lanes_$NAME(codes.z), lanes_$NAME(codes.w));
    return scaled_$NAME(values, vec2<f32>(scale), vec2<f32>(-32.0 * scale));
}
