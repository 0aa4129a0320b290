// q4_0: 32 elements in 18 bytes. x = scale * (code - 8).
//
//   bytes 0..2    scale, f16
//   bytes 2..18   codes: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 18u;
    return (f32(nibble_$NAME(block + 2u, at & 31u)) - 8.0) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = nibbles_$NAME(block + 2u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 8.0) * scale, (lanes_$NAME(codes.y) - 8.0) * scale);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = octet_$NAME(block + 2u + (at & 15u));
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = (codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        (lanes_$NAME(low.x) - 8.0) * scale, (lanes_$NAME(low.y) - 8.0) * scale,
        (lanes_$NAME(high.x) - 8.0) * scale, (lanes_$NAME(high.y) - 8.0) * scale,
    );
}

// GEMV.
struct Codes_$NAME {
    values: mat4x4<f32>,
    scale: f32,
}
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let codes = nibble_words_$NAME(head, offsets);
    // High nibbles times 16.
    let low = codes & vec2<u32>(0x0f0f0f0fu);
    let high = codes & vec2<u32>(0xf0f0f0f0u);
    let scale = widened_$NAME($NAME[head] >> offsets.scale);
    return Codes_$NAME(
        mat4x4<f32>(lanes_$NAME(low.x), lanes_$NAME(low.y), lanes_$NAME(high.x), lanes_$NAME(high.y)), scale
    );
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-8.0 * (sums.x + sums.y), 0.0);
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + codes.scale * (products.x + products.y * 0.0625);
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return scaled_$NAME(codes.values, codes.scale * vec2<f32>(1.0, 0.0625), vec2<f32>(-8.0 * codes.scale));
}
