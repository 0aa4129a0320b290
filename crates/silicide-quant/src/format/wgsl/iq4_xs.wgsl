// Element `at` of iq4_xs blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 136u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 4u + (group >> 1u)) >> ((group & 1u) << 2u)) & 15u;
    let sub = low | (((pair_$NAME(block + 2u) >> (group << 1u)) & 3u) << 4u);
    let scale = half_$NAME(block) * (f32(sub) - 32.0);
    return scale * level_$NAME(nibble_$NAME(block + 8u + (group << 4u), at & 31u));
}
