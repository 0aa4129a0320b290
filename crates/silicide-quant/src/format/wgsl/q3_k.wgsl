// Element `at` of q3_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 110u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let low = (byte_$NAME(block + 32u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let high = (byte_$NAME(block + i) >> group) & 1u;
    // Sixteen 6-bit scales around 32: low nibbles in eight bytes, pairs of high bits in four.
    let s = (group << 1u) + (i >> 4u);
    let sub_low = (byte_$NAME(block + 96u + (s & 7u)) >> ((s >> 3u) << 2u)) & 15u;
    let sub_high = (byte_$NAME(block + 104u + (s & 3u)) >> ((s >> 2u) << 1u)) & 3u;
    let scale = half_$NAME(block + 108u) * (f32(sub_low | (sub_high << 4u)) - 32.0);
    return scale * (f32(low | (high << 2u)) - 4.0);
}
