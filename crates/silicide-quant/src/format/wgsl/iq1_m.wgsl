// iq1_m: 256 elements in 56 bytes, 8 groups of 32. x = scale * (2 * half_scale + 1) * (level + shift),
// with levels -1, 0, 1 and a shift of 1/8 up or down. A code word has the levels of eight elements, two bits each.
//
//   bytes 0..32   low eight bits of the codes, four codes for a group
//   bytes 32..48  a nibble for a code: three high bits, sign of the shift
//   bytes 48..56  four u16: four half_scales of 3 bits for 16 elements each; the top nibbles are the scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 56u;
    let group = (at >> 5u) & 7u;
    let k = (at >> 3u) & 3u;
    let scales = block + 48u;
    let top = (pair_$NAME(scales) >> 12u) | ((pair_$NAME(scales + 2u) >> 12u) << 4u)
        | ((pair_$NAME(scales + 4u) >> 12u) << 8u) | ((pair_$NAME(scales + 6u) >> 12u) << 12u);
    let subs = pair_$NAME(scales + ((group >> 1u) << 1u)) >> (6u * (group & 1u));
    let sub = (subs >> (3u * (k >> 1u))) & 7u;
    let high = (byte_$NAME(block + 32u + (group << 1u) + (k >> 1u)) >> ((k & 1u) << 2u)) & 15u;
    let code = byte_$NAME(block + (group << 2u) + k) | ((high & 7u) << 8u);
    let level = f32((word_$NAME(code) >> ((at & 7u) << 1u)) & 3u) - 1.0;
    let shift = select(0.125, -0.125, (high & 8u) != 0u);
    return widened_$NAME(top) * f32(2u * sub + 1u) * (level + shift);
}
