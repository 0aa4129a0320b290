// Element `at` of q5_1 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 24u;
    let i = at & 31u;
    let fifth = (byte_$NAME(block + 4u + (i >> 3u)) >> (i & 7u)) & 1u;
    return f32(nibble_$NAME(block + 8u, i) | (fifth << 4u)) * half_$NAME(block) + half_$NAME(block + 2u);
}
