// Element `at` of iq4_nl blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 18u;
    return half_$NAME(block) * level_$NAME(nibble_$NAME(block + 2u, at & 31u));
}
