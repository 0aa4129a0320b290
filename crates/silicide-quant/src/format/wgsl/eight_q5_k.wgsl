// Eight elements of q5_k blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 176u;
    let i = at & 31u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let low = nibbles_$NAME(block + 48u + ((s >> 1u) << 5u) + i, (s & 1u) << 2u);
    let high = (octet_$NAME(block + 16u + i) >> vec2<u32>(s))
        & vec2<u32>(0x01010101u);
    let codes = low | (high << vec2<u32>(4u));
    let scale = half_$NAME(block) * subs.x;
    let least = half_$NAME(block + 2u) * subs.y;
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}
