// Element `at` of q2_0 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 6u) * 18u;
    let code = (byte_$NAME(block + 2u + ((at & 63u) >> 2u)) >> ((at & 3u) << 1u)) & 3u;
    return (f32(code) - 1.0) * half_$NAME(block);
}
