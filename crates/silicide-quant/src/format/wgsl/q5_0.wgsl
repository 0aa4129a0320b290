// q5_0: 32 elements in 22 bytes. x = scale * (code - 16).
//
//   bytes 0..2    scale, f16
//   bytes 2..6    fifth bits of the codes, bit i for element i
//   bytes 6..22   low four bits: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 22u;
    let i = at & 31u;
    let fifth = (byte_$NAME(block + 2u + (i >> 3u)) >> (i & 7u)) & 1u;
    return (f32(nibble_$NAME(block + 6u, i) | (fifth << 4u)) - 16.0) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 22u;
    let codes = nibbles_$NAME(block + 6u + (at & 15u), (at >> 2u) & 4u)
        | fifths_$NAME(byte_$NAME(block + 2u + ((at >> 3u) & 3u)));
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 16.0) * scale, (lanes_$NAME(codes.y) - 16.0) * scale);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 22u;
    let codes = octet_$NAME(block + 6u + (at & 15u));
    let fifths = quad_$NAME(block + 2u) >> (at & 8u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths);
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths >> 16u);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        (lanes_$NAME(low.x) - 16.0) * scale, (lanes_$NAME(low.y) - 16.0) * scale,
        (lanes_$NAME(high.x) - 16.0) * scale, (lanes_$NAME(high.y) - 16.0) * scale,
    );
}

// GEMV. A block begins in the low or in the high half of a word.
const BLOCK_$NAME: u32 = 32u;
const BYTES_$NAME: u32 = 22u;
const PERIOD_$NAME: u32 = 64u;
const STEP_$NAME: u32 = 11u;
struct Offsets_$NAME {
    is_low: bool,
    // The word before the middle of which the codes begin, where blocks begin in the low half.
    code: u32,
    fifths: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME(is_low_$NAME(at), 1u + ((inside & 8u) >> 2u), inside & 8u);
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let code = head + offsets.code;
    let words = vec3<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u]);
    let codes = select(words.yz, middle_$NAME(words), offsets.is_low);
    let first = vec2<u32>($NAME[head], $NAME[head + 1u]);
    let fifths = select(first.y, (first.x >> 16u) | (first.y << 16u), offsets.is_low) >> offsets.fifths;
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths);
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths >> 16u);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)),
        scale_of_$NAME(first.x, offsets.is_low),
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-16.0 * (sums.x + sums.y), 0.0);
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scale * (products.x + products.y);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, vec2<f32>(codes.scale), vec2<f32>(-16.0 * codes.scale));
}
