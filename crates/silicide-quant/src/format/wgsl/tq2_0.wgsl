// Element `at` of tq2_0 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 66u;
    let code = byte_$NAME(block + (((at >> 7u) & 1u) << 5u) + (at & 31u)) >> (((at >> 5u) & 3u) << 1u);
    return (f32(code & 3u) - 1.0) * half_$NAME(block + 64u);
}
