// iq2_xs: 256 elements in 74 bytes, 8 groups of 32. x = scale * (half_scale + 1/2) / 4 * sign * level.
// A code word has the levels of eight elements.
//
//   bytes 0..2    scale, f16
//   bytes 2..66   u16 for eight elements: code in 9 bits, seven signs
//   bytes 66..74  a byte for a group: a nibble of half_scale for 16 elements each

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 74u;
    let group = (at >> 5u) & 7u;
    let k = (at >> 3u) & 3u;
    let code = pair_$NAME(block + 2u + (group << 3u) + (k << 1u));
    let nibble = (byte_$NAME(block + 66u + group) >> ((k >> 1u) << 2u)) & 15u;
    let scale = half_$NAME(block) * (0.5 + f32(nibble)) * 0.25;
    let level = level2_$NAME(word_$NAME(code & 511u), at);
    return scale * negated_$NAME(level, even_signs_$NAME(code >> 9u), at);
}
