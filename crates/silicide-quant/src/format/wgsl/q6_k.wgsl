// Element `at` of q6_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = (byte_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i) >> ((run >> 1u) << 2u)) & 15u;
    let high = (byte_$NAME(block + 128u + (part << 5u) + i) >> (run << 1u)) & 3u;
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return scale * (f32(low | (high << 4u)) - 32.0);
}
