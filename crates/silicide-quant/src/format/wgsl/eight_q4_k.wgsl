// Eight elements of q4_k blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 144u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let codes = nibbles_$NAME(block + 16u + ((s >> 1u) << 5u) + (at & 31u), (s & 1u) << 2u);
    let scale = half_$NAME(block) * subs.x;
    let least = half_$NAME(block + 2u) * subs.y;
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}
