// q3_k: 256 elements in 110 bytes, 16 sub-blocks of 16. x = scale * (sub_scale - 32) * (code - 4).
//
//   bytes 0..32     third bits of the codes: bit g of byte i for element 32 * g + i
//   bytes 32..96    low two bits: byte 32 * h + i has elements 128 * h + i + (0, 32, 64, 96)
//   bytes 96..108   sub_scales of 6 bits: low nibbles in eight bytes, pairs of high bits in four
//   bytes 108..110  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 110u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 32u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let high = (byte_$NAME(block + i) >> group) & 1u;
    // Sixteen 6-bit scales around 32: low nibbles in eight bytes, pairs of high bits in four.
    let s = (group << 1u) + (i >> 4u);
    let sub_low = (byte_$NAME(block + 96u + (s & 7u)) >> ((s >> 3u) << 2u)) & 15u;
    let sub_high = (byte_$NAME(block + 104u + (s & 3u)) >> ((s >> 2u) << 1u)) & 3u;
    let scale = half_$NAME(block + 108u) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    return scale * (f32(low | (high << 2u)) - 4.0);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 110u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let position = block + 32u + ((group >> 2u) << 5u) + i;
    let low = (octet_$NAME(position) >> vec2<u32>((group & 3u) << 1u))
        & vec2<u32>(0x03030303u);
    let high = (octet_$NAME(block + i) >> vec2<u32>(group))
        & vec2<u32>(0x01010101u);
    let codes = low | (high << vec2<u32>(2u));
    let s = (group << 1u) + (i >> 4u);
    let sub_low = (byte_$NAME(block + 96u + (s & 7u)) >> ((s >> 3u) << 2u)) & 15u;
    let sub_high = (byte_$NAME(block + 104u + (s & 3u)) >> ((s >> 2u) << 1u)) & 3u;
    let scale = half_$NAME(block + 108u) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    return mat2x4<f32>(scale * (lanes_$NAME(codes.x) - 4.0), scale * (lanes_$NAME(codes.y) - 4.0));
}
