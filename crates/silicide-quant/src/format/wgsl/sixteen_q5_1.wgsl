// Sixteen elements of q5_1 blocks: both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 24u;
    let codes = octet_$NAME(block + 8u + (at & 15u));
    let fifths = quad_$NAME(block + 4u) >> (at & 8u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths);
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths >> 16u);
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat4x4<f32>(
        lanes_$NAME(low.x) * scale + least, lanes_$NAME(low.y) * scale + least,
        lanes_$NAME(high.x) * scale + least, lanes_$NAME(high.y) * scale + least,
    );
}
