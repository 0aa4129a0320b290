// Eight elements of iq4_xs blocks, the first of which is a multiple of eight.
fn levels_$NAME(codes: u32) -> vec4<f32> {
    return vec4<f32>(
        level_$NAME(codes & 15u), level_$NAME((codes >> 8u) & 15u),
        level_$NAME((codes >> 16u) & 15u), level_$NAME(codes >> 24u),
    );
}
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    let codes = nibbles_$NAME(block + 8u + (group << 4u) + (at & 15u), (at >> 2u) & 4u);
    return mat2x4<f32>(scale * levels_$NAME(codes.x), scale * levels_$NAME(codes.y));
}
