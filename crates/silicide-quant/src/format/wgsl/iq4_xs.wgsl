// iq4_xs: 256 elements in 136 bytes, 8 groups of 32. x = scale * (group_scale - 32) * level[code].
//
//   bytes 0..2    scale, f16
//   bytes 2..4    high two bits of the group_scales
//   bytes 4..8    low four bits of the group_scales, a nibble for a group
//   bytes 8..136  codes, 16 bytes for a group: low nibbles are its elements 0..16, high nibbles 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    return scale * level_$NAME(nibble_$NAME(block + 8u + (group << 4u), at & 31u));
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    let codes = nibbles_$NAME(block + 8u + (group << 4u) + (at & 15u), (at >> 2u) & 4u);
    return mat2x4<f32>(scale * levels_$NAME(codes.x), scale * levels_$NAME(codes.y));
}
