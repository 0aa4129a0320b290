// Eight elements of q2_k blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let position = block + 16u + ((group >> 2u) << 5u) + i;
    let codes = (octet_$NAME(position) >> vec2<u32>((group & 3u) << 1u))
        & vec2<u32>(0x03030303u);
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    let scale = half_$NAME(block + 80u) * f32(sub & 15u);
    let least = half_$NAME(block + 82u) * f32(sub >> 4u);
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}
