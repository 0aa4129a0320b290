// Element `at` of q8_1 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 36u;
    return signed_$NAME(block + 4u + (at & 31u)) * half_$NAME(block);
}
