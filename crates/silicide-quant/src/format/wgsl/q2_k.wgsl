// Element `at` of q2_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 84u;
    let i = at & 31u;
    let group = (at >> 5u) & 7u;
    let code = (byte_$NAME(block + 16u + ((group >> 2u) << 5u) + i) >> ((group & 3u) << 1u)) & 3u;
    let sub = byte_$NAME(block + (group << 1u) + (i >> 4u));
    return half_$NAME(block + 80u) * f32(sub & 15u) * f32(code) - half_$NAME(block + 82u) * f32(sub >> 4u);
}
