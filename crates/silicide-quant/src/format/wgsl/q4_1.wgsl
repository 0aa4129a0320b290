// Element `at` of q4_1 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 20u;
    return f32(nibble_$NAME(block + 4u, at & 31u)) * half_$NAME(block) + half_$NAME(block + 2u);
}
