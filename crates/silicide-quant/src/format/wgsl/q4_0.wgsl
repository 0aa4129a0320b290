// Element `at` of q4_0 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 18u;
    return (f32(nibble_$NAME(block + 2u, at & 31u)) - 8.0) * half_$NAME(block);
}
