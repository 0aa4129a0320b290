// q5_1: 32 elements in 24 bytes. x = scale * code + minimum.
//
//   bytes 0..2    scale, f16
//   bytes 2..4    minimum, f16
//   bytes 4..8    fifth bits of the codes, bit i for element i
//   bytes 8..24   low four bits: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 24u;
    let i = at & 31u;
    let fifth = (byte_$NAME(block + 4u + (i >> 3u)) >> (i & 7u)) & 1u;
    return f32(nibble_$NAME(block + 8u, i) | (fifth << 4u)) * half_$NAME(block) + half_$NAME(block + 2u);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 5u) * 24u;
    let codes = nibbles_$NAME(block + 8u + (at & 15u), (at >> 2u) & 4u)
        | fifths_$NAME(byte_$NAME(block + 4u + ((at >> 3u) & 3u)));
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat2x4<f32>(lanes_$NAME(codes.x) * scale + least, lanes_$NAME(codes.y) * scale + least);
}

// Both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 5u) * 24u;
    let codes = octet_$NAME(block + 8u + (at & 15u));
    let fifths = quad_$NAME(block + 4u) >> (at & 8u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths);
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | fifths_$NAME(fifths >> 16u);
    let scale = half_$NAME(block);
    let least = half_$NAME(block + 2u);
    return mat4x4<f32>(
        lanes_$NAME(low.x) * scale + least, lanes_$NAME(low.y) * scale + least,
        lanes_$NAME(high.x) * scale + least, lanes_$NAME(high.y) * scale + least,
    );
}
