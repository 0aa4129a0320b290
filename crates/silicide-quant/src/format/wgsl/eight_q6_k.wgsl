// Eight elements of q6_k blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = nibbles_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i, (run >> 1u) << 2u);
    let position = block + 128u + (part << 5u) + i;
    let high = (octet_$NAME(position) >> vec2<u32>(run << 1u))
        & vec2<u32>(0x03030303u);
    let codes = low | (high << vec2<u32>(4u));
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return mat2x4<f32>(scale * (lanes_$NAME(codes.x) - 32.0), scale * (lanes_$NAME(codes.y) - 32.0));
}
