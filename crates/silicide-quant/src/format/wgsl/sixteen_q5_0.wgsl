// Sixteen elements of q5_0 blocks: both nibbles of eight bytes.
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
