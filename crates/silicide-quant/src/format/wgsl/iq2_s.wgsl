// Element `at` of iq2_s blocks.
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
