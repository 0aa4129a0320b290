// f32 as u32 of the same order: both zeros alike, every NaN at the top; never 0.
fn key(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let size = bits & 0x7fffffffu;
    if size > 0x7f800000u {
        return 0xffffffffu;
    }
    if size == 0u {
        return 0x80000000u;
    }
    return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
}
