// Rounds f32 to bf16, to nearest even; NaN becomes quiet and keeps its sign.
fn narrow_$NAME(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    if (bits & 0x7fffffffu) > 0x7f800000u {
        return (bits >> 16u) | 0x40u;
    }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
fn store_$NAME(i: u32, v: f32) {
    put_$NAME(i, narrow_$NAME(v));
}
