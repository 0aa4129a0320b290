// q8_0: 32 elements in 34 bytes. x = scale * code.
//
//   bytes 0..2    scale, f16
//   bytes 2..34   codes, i8

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 34u;
    return signed_$NAME(block + 2u + (at & 31u)) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 34u;
    let codes = octet_$NAME(block + 2u + (at & 31u));
    let scale = half_$NAME(block);
    return mat2x4<f32>(signed_lanes_$NAME(codes.x) * scale, signed_lanes_$NAME(codes.y) * scale);
}

// Sixteen elements in a row under one scale.
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
