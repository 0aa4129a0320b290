// iq2_xxs: 256 elements in 66 bytes, 8 groups of 32. x = scale * (group_scale + 1/2) / 4 * sign * level.
// A code word has the levels of eight elements.
//
//   bytes 0..2   scale, f16
//   bytes 2..66  eight bytes for a group: four codes, then a u32 of four times seven signs and group_scale in 4 bits

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 66u;
    let group = block + 2u + (((at >> 5u) & 7u) << 3u);
    let k = (at >> 3u) & 3u;
    let rest = quad_$NAME(group + 4u);
    let scale = half_$NAME(block) * (0.5 + f32(rest >> 28u)) * 0.25;
    let level = level2_$NAME(word_$NAME(byte_$NAME(group + k)), at);
    return scale * negated_$NAME(level, even_signs_$NAME(rest >> (7u * k)), at);
}
