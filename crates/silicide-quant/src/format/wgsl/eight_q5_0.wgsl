// Eight elements of q5_0 blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 22u;
    let codes = nibbles_$NAME(block + 6u + (at & 15u), (at >> 2u) & 4u)
        | fifths_$NAME(byte_$NAME(block + 2u + ((at >> 3u) & 3u)));
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 16.0) * scale, (lanes_$NAME(codes.y) - 16.0) * scale);
}
