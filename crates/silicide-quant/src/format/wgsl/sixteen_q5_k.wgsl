// Sixteen elements of q5_k blocks: both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 32u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 8u) * 176u;
    let i = at & 31u;
    let s = (at >> 5u) & 6u;
    let codes = octet_$NAME(block + 48u + (s << 4u) + i);
    let fifths = octet_$NAME(block + 16u + i) >> vec2<u32>(s);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | ((fifths & vec2<u32>(0x01010101u)) << vec2<u32>(4u));
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu))
        | (((fifths >> vec2<u32>(1u)) & vec2<u32>(0x01010101u)) << vec2<u32>(4u));
    let subs = sub_pairs_$NAME(block + 4u, s);
    let scales = half_$NAME(block) * subs[0];
    let minima = half_$NAME(block + 2u) * subs[1];
    return mat4x4<f32>(
        scales.x * lanes_$NAME(low.x) - minima.x, scales.x * lanes_$NAME(low.y) - minima.x,
        scales.y * lanes_$NAME(high.x) - minima.y, scales.y * lanes_$NAME(high.y) - minima.y,
    );
}
