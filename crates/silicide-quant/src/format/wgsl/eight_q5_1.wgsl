// Eight elements of q5_1 blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 24u;
    let codes = nibbles_$NAME(block + 8u + (at & 15u), (at >> 2u) & 4u)
        | fifths_$NAME(byte_$NAME(block + 4u + ((at >> 3u) & 3u)));
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat2x4<f32>(lanes_$NAME(codes.x) * scale + least, lanes_$NAME(codes.y) * scale + least);
}
