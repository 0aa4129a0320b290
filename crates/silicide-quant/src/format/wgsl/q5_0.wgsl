// q5_0: 32 elements in 22 bytes. x = scale * (code - 16).
//
//   bytes 0..2    scale, f16
//   bytes 2..6    fifth bits of the codes, bit i for element i
//   bytes 6..22   low four bits: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 22u;
    let i = at & 31u;
    let fifth = (byte_$NAME(block + 2u + (i >> 3u)) >> (i & 7u)) & 1u;
    return (f32(nibble_$NAME(block + 6u, i) | (fifth << 4u)) - 16.0) * half_$NAME(block);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 22u;
    let codes = nibbles_$NAME(block + 6u + (at & 15u), (at >> 2u) & 4u)
        | fifths_$NAME(byte_$NAME(block + 2u + ((at >> 3u) & 3u)));
    let scale = half_$NAME(block);
    return mat2x4<f32>((lanes_$NAME(codes.x) - 16.0) * scale, (lanes_$NAME(codes.y) - 16.0) * scale);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 22u;
    let codes = octet_$NAME(block + 6u + (at & 15u));
    let fifths = quad_$NAME(block + 2u) >> (at & 8u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths);
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths >> 16u);
    let scale = half_$NAME(block);
    return mat4x4<f32>(
        (lanes_$NAME(low.x) - 16.0) * scale, (lanes_$NAME(low.y) - 16.0) * scale,
        (lanes_$NAME(high.x) - 16.0) * scale, (lanes_$NAME(high.y) - 16.0) * scale,
    );
}
