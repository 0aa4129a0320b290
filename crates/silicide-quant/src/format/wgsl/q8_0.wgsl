// Element `at` of q8_0 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 34u;
    return signed_$NAME(block + 2u + (at & 31u)) * half_$NAME(block);
}
