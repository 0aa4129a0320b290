// Element `at` of q5_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 176u;
    let i = at & 31u;
    let s = (at >> 5u) & 7u;
    let subs = subs_$NAME(block + 4u, s);
    let low = (byte_$NAME(block + 48u + ((s >> 1u) << 5u) + i) >> ((s & 1u) << 2u)) & 15u;
    let code = low | (((byte_$NAME(block + 16u + i) >> s) & 1u) << 4u);
    return half_$NAME(block) * subs.x * f32(code) - half_$NAME(block + 2u) * subs.y;
}
