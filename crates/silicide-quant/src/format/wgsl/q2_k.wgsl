// q2_k: 256 elements in 84 bytes, 16 sub-blocks of 16.
// x = scale * sub_scale * code - minimum * sub_minimum.
//
//   bytes 0..16   a sub-block each: sub_scale in the low nibble, sub_minimum in the high one
//   bytes 16..80  codes: byte 32 * h + i has elements 128 * h + i + (0, 32, 64, 96), two bits each
//   bytes 80..82  scale, f16
//   bytes 82..84  minimum, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let code = (byte_$NAME(block + 16u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    return half_$NAME(block + 80u) * f32(sub & 15u) * f32(code) - half_$NAME(block + 82u) * f32(sub >> 4u);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let position = block + 16u + ((group >> 2u) << 5u) + i;
    let codes = (octet_$NAME(position) >> vec2<u32>((group & 3u) << 1u))
        & vec2<u32>(0x03030303u);
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    let scale = half_$NAME(block + 80u) * f32(sub & 15u);
    let least = half_$NAME(block + 82u) * f32(sub >> 4u);
    return mat2x4<f32>(scale * lanes_$NAME(codes.x) - least, scale * lanes_$NAME(codes.y) - least);
}
