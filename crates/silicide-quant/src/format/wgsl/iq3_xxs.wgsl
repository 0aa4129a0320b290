// iq3_xxs: 256 elements in 98 bytes, 8 groups of 32. x = scale * (group_scale + 1/2) / 2 * sign * level.
// A code word has the levels of four elements.
//
//   bytes 0..2    scale, f16
//   bytes 2..66   codes, eight for a group
//   bytes 66..98  u32 for a group: four times seven signs, group_scale in 4 bits

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 98u;
    let group = (at >> 5u) & 7u;
    let rest = quad_$NAME(block + 66u + (group << 2u));
    let scale = half_$NAME(block) * (0.5 + f32(rest >> 28u)) * 0.5;
    let word = word_$NAME(byte_$NAME(block + 2u + (group << 3u) + ((at >> 2u) & 7u)));
    let index = (word >> ((at & 3u) << 2u)) & 15u;
    // Steps of eight from 4, but for the last, which is 62.
    let level = f32(4u + 8u * index + 2u * u32(index == 7u));
    return scale * negated_$NAME(level, even_signs_$NAME(rest >> (7u * ((at >> 3u) & 3u))), at);
}
