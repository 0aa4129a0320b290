// q3_k: 256 elements in 110 bytes, 16 sub-blocks of 16. x = scale * (sub_scale - 32) * (code - 4).
//
//   bytes 0..32     third bits of the codes: bit g of byte i for element 32 * g + i
//   bytes 32..96    low two bits: byte 32 * h + i has elements 128 * h + i + (0, 32, 64, 96)
//   bytes 96..108   sub_scales of 6 bits: low nibbles in eight bytes, pairs of high bits in four
//   bytes 108..110  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 110u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 32u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let high = (byte_$NAME(block + i) >> group) & 1u;
    // Sixteen 6-bit scales around 32: low nibbles in eight bytes, pairs of high bits in four.
    let s = (group << 1u) + (i >> 4u);
    let sub_low = (byte_$NAME(block + 96u + (s & 7u)) >> ((s >> 3u) << 2u)) & 15u;
    let sub_high = (byte_$NAME(block + 104u + (s & 3u)) >> ((s >> 2u) << 1u)) & 3u;
    let scale = half_$NAME(block + 108u) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    return scale * (f32(low | (high << 2u)) - 4.0);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 110u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let position = block + 32u + ((group >> 2u) << 5u) + i;
    let low = (octet_$NAME(position) >> vec2<u32>((group & 3u) << 1u))
        & vec2<u32>(0x03030303u);
    let high = (octet_$NAME(block + i) >> vec2<u32>(group))
        & vec2<u32>(0x01010101u);
    let codes = low | (high << vec2<u32>(2u));
    let s = (group << 1u) + (i >> 4u);
    let sub_low = (byte_$NAME(block + 96u + (s & 7u)) >> ((s >> 3u) << 2u)) & 15u;
    let sub_high = (byte_$NAME(block + 104u + (s & 3u)) >> ((s >> 2u) << 1u)) & 3u;
    let scale = half_$NAME(block + 108u) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    return mat2x4<f32>(scale * (lanes_$NAME(codes.x) - 4.0), scale * (lanes_$NAME(codes.y) - 4.0));
}

// Elements of two neighbouring groups, whose codes lie in the same bytes.
const SPREAD_$NAME: u32 = 32u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 32u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}

// GEMV. A block begins in the low or in the high half of a word.
const BLOCK_$NAME: u32 = 256u;
const BYTES_$NAME: u32 = 110u;
const PERIOD_$NAME: u32 = 512u;
const STEP_$NAME: u32 = 55u;
struct Offsets_$NAME {
    is_low: bool,
    // Words of the low and of the third bits, and of the low nibbles of sub_scales.
    low: u32,
    third: u32,
    sub: u32,
    // Bits.
    low_shift: u32,
    third_shift: u32,
    sub_shift: u32,
    sub_high_shift: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scales: vec2<f32>,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let i = inside & 31u;
    let group = (inside >> 5u) & 6u;
    let sub = (i & 16u) >> 1u;
    return Offsets_$NAME(
        is_low_$NAME(at),
        8u + ((group & 4u) << 1u) + (i >> 2u), i >> 2u, 24u + ((group >> 1u) & 1u),
        (group & 2u) << 1u, group, sub + (group & 4u), sub + group,
    );
}
// Eight bytes from word `at` of the binding, or from its middle. The word behind them is the block's.
fn words_$NAME(at: u32, is_low: bool) -> vec2<u32> {
    let words = vec3<u32>($NAME[at], $NAME[at + 1u], $NAME[at + 2u]);
    return select(middle_$NAME(words), words.xy, is_low);
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let lows = words_$NAME(head + offsets.low, offsets.is_low) >> vec2<u32>(offsets.low_shift);
    let thirds = words_$NAME(head + offsets.third, offsets.is_low) >> vec2<u32>(offsets.third_shift);
    // Codes of the second group times 4.
    let low = (lows & vec2<u32>(0x03030303u)) | ((thirds << vec2<u32>(2u)) & vec2<u32>(0x04040404u));
    let high = (lows & vec2<u32>(0x0c0c0c0cu)) | ((thirds << vec2<u32>(3u)) & vec2<u32>(0x10101010u));
    let near = vec2<u32>($NAME[head + offsets.sub], $NAME[head + 26u]);
    let next = vec2<u32>($NAME[head + offsets.sub + 1u], $NAME[head + 27u]);
    let words = select((near >> vec2<u32>(16u)) | (next << vec2<u32>(16u)), near, offsets.is_low);
    let subs = ((words.x >> offsets.sub_shift) & 0x000f000fu) | (((words.y >> offsets.sub_high_shift) & 0x00030003u) << 4u);
    let scale = scale_of_$NAME(next.y, offsets.is_low);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scale * (lanes_$NAME(subs).xz - 32.0) * vec2<f32>(1.0, 0.25),
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return sums * vec2<f32>(-4.0, -16.0);
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    // The second product is four times that of the second group.
    return start + codes.scales.x * products.x + codes.scales.y * products.y;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scales, codes.scales * vec2<f32>(-4.0, -16.0));
}

// GEMM. A step is two sub-blocks.
fn column_$NAME(first: u32) -> u32 {
    return block_start_$NAME(first);
}
fn run_$NAME(column: u32, depth: u32, half: u32) -> mat4x4<f32> {
    let block = column + (depth >> 8u) * 110u;
    let head = block >> 2u;
    let middle = (block & 2u) >> 1u;
    let group = (depth >> 5u) & 7u;
    let first = head + half * 4u;
    let last = first + middle;
    let low_at = 8u + ((group >> 2u) << 3u);
    let lows = shifted_$NAME(first + low_at, last + low_at, middle * 16u + ((group & 3u) << 1u));
    let thirds = shifted_$NAME(first, last, middle * 16u + group);
    let codes = (lows & vec4<u32>(0x03030303u)) | ((thirds & vec4<u32>(0x01010101u)) << vec4<u32>(2u));
    let nibble = block + half + (96u + ((group & 3u) << 1u));
    let sub_low = ($NAME[nibble >> 2u] >> (((nibble & 3u) << 3u) + ((group >> 2u) << 2u))) & 15u;
    let pair = block + half + (104u + ((group & 1u) << 1u));
    let sub_high = ($NAME[pair >> 2u] >> (((pair & 3u) << 3u) + ((group >> 1u) << 1u))) & 3u;
    let scale = widened_$NAME($NAME[head + 27u] >> (middle * 16u)) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    let values = mat4x4<f32>(lanes_$NAME(codes.x), lanes_$NAME(codes.y), lanes_$NAME(codes.z), lanes_$NAME(codes.w));
    return scaled_$NAME(values, vec2<f32>(scale), vec2<f32>(-4.0 * scale));
}
