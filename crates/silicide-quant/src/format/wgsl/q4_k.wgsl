// Element `at` of q4_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 144u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let code = (byte_$NAME(block + 16u + ((s >> 1u) << 5u) + (at & 31u)) >> ((s & 1u) << 2u)) & 15u;
    return half_$NAME(block) * subs.x * f32(code) - half_$NAME(block + 2u) * subs.y;
}
