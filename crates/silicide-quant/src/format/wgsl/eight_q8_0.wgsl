// Eight elements of q8_0 blocks, the first of which is a multiple of eight.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 34u;
    let codes = octet_$NAME(block + 2u + (at & 31u));
    let scale = half_$NAME(block);
    return mat2x4<f32>(signed_lanes_$NAME(codes.x) * scale, signed_lanes_$NAME(codes.y) * scale);
}
