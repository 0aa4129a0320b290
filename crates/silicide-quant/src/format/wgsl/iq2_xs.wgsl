// Element `at` of iq2_xs blocks.
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
