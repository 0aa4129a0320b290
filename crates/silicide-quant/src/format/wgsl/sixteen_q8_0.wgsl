// Sixteen elements of q8_0 blocks, in a row.
const SPREAD_$NAME: u32 = 8u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 34u;
    let position = block + 2u + (at & 31u);
    let low = octet_$NAME(position);
    let high = octet_$NAME(position + 8u);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        signed_lanes_$NAME(low.x) * scale, signed_lanes_$NAME(low.y) * scale,
        signed_lanes_$NAME(high.x) * scale, signed_lanes_$NAME(high.y) * scale,
    );
}
