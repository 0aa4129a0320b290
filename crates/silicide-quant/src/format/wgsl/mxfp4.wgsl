// mxfp4: 32 elements in 17 bytes. x = 2^(exponent - 127) * e2m1.
//
//   byte  0      exponent
//   bytes 1..17  4-bit floats: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 17u;
    let scale = scale_$NAME(byte_$NAME(block));
    return level_$NAME(nibble_$NAME(block + 1u, at & 31u)) * scale.x * scale.y;
}

// Two factors of half of 2^(exponent - 127). The smallest two powers are below the normal range, where devices may see zero, while
// products with them are not.
fn scale_$NAME(exponent: u32) -> vec2<f32> {
    let normal = max(exponent, 2u);
    return vec2<f32>(
        bitcast<f32>((normal - 1u) << 23u), select(1.0, f32(1u + exponent) * 0.25, exponent < 2u)
    );
}

// Twice the value of a code.
fn level_$NAME(code: u32) -> f32 {
    return doubled_$NAME(code);
}
fn levels_$NAME(codes: u32) -> vec4<f32> {
    return vec4<f32>(
        level_$NAME(codes & 15u), level_$NAME((codes >> 8u) & 15u),
        level_$NAME((codes >> 16u) & 15u), level_$NAME(codes >> 24u),
    );
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 17u;
    let codes = nibbles_$NAME(block + 1u + (at & 15u), (at >> 2u) & 4u);
    let scale = scale_$NAME(byte_$NAME(block));
    return mat2x4<f32>(levels_$NAME(codes.x) * scale.x * scale.y, levels_$NAME(codes.y) * scale.x * scale.y);
}

// GEMV. A block begins at any byte of a word.
const PERIOD_$NAME: u32 = 128u;
const STEP_$NAME: u32 = 17u;
struct Offsets_$NAME {
    // Bits: of the exponent from the head on, and of the codes from the exponent on.
    exponent: u32,
    code: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: vec2<f32>,
}
fn block_start_$NAME(at: u32) -> u32 {
    return p.$NAME_offset + (at >> 5u) * 17u;
}
fn head_$NAME(at: u32) -> u32 {
    return block_start_$NAME(at) >> 2u;
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    let exponent = (block_start_$NAME(at) & 3u) << 3u;
    return Offsets_$NAME(exponent, 8u + ((inside & 8u) << 3u));
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let bit = offsets.exponent + offsets.code;
    let code = head + (bit >> 5u);
    // No word past the last code is read.
    let words = vec3<u32>($NAME[code], $NAME[code + 1u], $NAME[head + ((bit + 56u) >> 5u)]);
    let shift = bit & 31u;
    let above = (words.yz << vec2<u32>(1u)) << vec2<u32>(31u - shift);
    let codes = (words.xy >> vec2<u32>(shift)) | above;
    let exponent = ($NAME[head] >> offsets.exponent) & 255u;
    return Codes_$NAME(levels_of_$NAME(codes), scale_$NAME(exponent));
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + (products.x + products.y) * codes.scale.x * codes.scale.y;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    let values = scaled_$NAME(codes.values, codes.scale.xx, vec2<f32>());
    return scaled_$NAME(values, codes.scale.yy, vec2<f32>());
}
