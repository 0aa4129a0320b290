// iq3_s: 256 elements in 110 bytes, 8 groups of 32. x = scale * (2 * group_scale + 1) * sign * level.
// A code word has the levels of four elements.
//
//   bytes 0..2      scale, f16
//   bytes 2..66     low eight bits of the codes, eight codes for a group
//   bytes 66..74    a byte for a group: the high bits of its codes
//   bytes 74..106   signs, a byte for eight elements
//   bytes 106..110  group_scales, a nibble for a group

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 110u;
    let group = (at >> 5u) & 7u;
    let k = (at >> 2u) & 7u;
    let high = (byte_$NAME(block + 66u + group) >> k) & 1u;
    let word = word_$NAME(byte_$NAME(block + 2u + (group << 3u) + k) | (high << 8u));
    let level = f32(1u + 2u * ((word >> ((at & 3u) << 2u)) & 15u));
    let nibble = (byte_$NAME(block + 106u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let signs = byte_$NAME(block + 74u + (group << 2u) + ((at >> 3u) & 3u));
    return half_$NAME(block) * f32(1u + 2u * nibble) * negated_$NAME(level, signs, at);
}
