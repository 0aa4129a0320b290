// Element `at` of q5_0 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 22u;
    let i = at & 31u;
    let fifth = (byte_$NAME(block + 2u + (i >> 3u)) >> (i & 7u)) & 1u;
    return (f32(nibble_$NAME(block + 6u, i) | (fifth << 4u)) - 16.0) * half_$NAME(block);
}
