// q8_0: 32 elements in 34 bytes. x = scale * code.
//
//   bytes 0..2    scale, f16
//   bytes 2..34   codes, i8

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 34u;
    return signed_$NAME(block + 2u + (at & 31u)) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 34u;
    let codes = octet_$NAME(block + 2u + (at & 31u));
    let scale = half_$NAME(block);
    return mat2x4<f32>(signed_lanes_$NAME(codes.x) * scale, signed_lanes_$NAME(codes.y) * scale);
}

// Sixteen elements in a row under one scale.
const SPREAD_$NAME: u32 = 8u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 34u;
    let position = block + 2u + (at & 31u);
    let low = octet_$NAME(position);
    let high = octet_$NAME(position + 8u);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        signed_lanes_$NAME(low.x) * scale, signed_lanes_$NAME(low.y) * scale,
        signed_lanes_$NAME(high.x) * scale, signed_lanes_$NAME(high.y) * scale,
    );
}

// GEMV. A block begins in the low or in the high half of a word. Codes are read as u8, 128 more.
const BLOCK_$NAME: u32 = 32u;
const BYTES_$NAME: u32 = 34u;
const PERIOD_$NAME: u32 = 64u;
const STEP_$NAME: u32 = 17u;
struct Offsets_$NAME {
    is_low: bool,
    code: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME(is_low_$NAME(at), (inside & 16u) >> 2u);
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let code = head + offsets.code;
    let words = vec4<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u], $NAME[code + 3u]);
    let next = vec4<u32>(words.yzw, $NAME[code + 4u]);
    let middle = (words >> vec4<u32>(16u)) | (next << vec4<u32>(16u));
    let codes = select(next, middle, offsets.is_low) ^ vec4<u32>(0x80808080u);
    let scale = scale_of_$NAME($NAME[head], offsets.is_low);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(codes.x), lanes_$NAME(codes.y), lanes_$NAME(codes.z), lanes_$NAME(codes.w)), scale
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-128.0 * (sums.x + sums.y), 0.0);
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scale * (products.x + products.y);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, vec2<f32>(codes.scale), vec2<f32>(-128.0 * codes.scale));
}
