// iq1_s: 256 elements in 50 bytes, 8 groups of 32. x = scale * (2 * group_scale + 1) * (level + shift),
// with levels -1, 0, 1 and a shift of 1/8 up or down. A code word has the levels of eight elements, two bits each.
//
//   bytes 0..2    scale, f16
//   bytes 2..34   low eight bits of the codes, four codes for a group
//   bytes 34..50  u16 for a group: four times three high bits of codes, group_scale in 3 bits, sign of the shift

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 50u;
    let group = (at >> 5u) & 7u;
    let k = (at >> 3u) & 3u;
    let high = pair_$NAME(block + 34u + (group << 1u));
    let code = byte_$NAME(block + 2u + (group << 2u) + k) | (((high >> (3u * k)) & 7u) << 8u);
    let level = f32((word_$NAME(code) >> ((at & 7u) << 1u)) & 3u) - 1.0;
    let shift = select(0.125, -0.125, (high & 0x8000u) != 0u);
    return half_$NAME(block) * f32(2u * ((high >> 12u) & 7u) + 1u) * (level + shift);
}
