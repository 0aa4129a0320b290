// iq2_s: 256 elements in 82 bytes, 8 groups of 32. x = scale * (half_scale + 1/2) / 4 * sign * level.
// A code word has the levels of eight elements.
//
//   bytes 0..2    scale, f16
//   bytes 2..34   low eight bits of the codes, four codes for a group
//   bytes 34..66  signs, a byte for eight elements
//   bytes 66..74  a byte for a group: two high bits for each code
//   bytes 74..82  a byte for a group: a nibble of half_scale for 16 elements each

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 82u;
    let group = (at >> 5u) & 7u;
    let k = (at >> 3u) & 3u;
    let high = (byte_$NAME(block + 66u + group) >> (k << 1u)) & 3u;
    let code = byte_$NAME(block + 2u + (group << 2u) + k) | (high << 8u);
    let signs = byte_$NAME(block + 34u + (group << 2u) + k);
    let nibble = (byte_$NAME(block + 74u + group) >> ((k >> 1u) << 2u)) & 15u;
    let scale = half_$NAME(block) * (0.5 + f32(nibble)) * 0.25;
    return scale * negated_$NAME(level2_$NAME(word_$NAME(code), at), signs, at);
}
