// Eight elements of q4_0 blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 18u;
    let codes = nibbles_$NAME(block + 2u + (at & 15u), (at >> 2u) & 4u);
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 8.0) * scale, (lanes_$NAME(codes.y) - 8.0) * scale);
}
