// Eight elements of iq4_nl blocks, the first of which is a multiple of eight.
fn levels_$NAME(codes: u32) -> vec4<f32> {
    return vec4<f32>(
        level_$NAME(codes & 15u), level_$NAME((codes >> 8u) & 15u),
        level_$NAME((codes >> 16u) & 15u), level_$NAME(codes >> 24u),
    );
}
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = nibbles_$NAME(block + 2u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    return mat2x4<f32>(scale * levels_$NAME(codes.x), scale * levels_$NAME(codes.y));
}
