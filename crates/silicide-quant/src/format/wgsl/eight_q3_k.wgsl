// Eight elements of q3_k blocks, the first of which is a multiple of eight.
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
