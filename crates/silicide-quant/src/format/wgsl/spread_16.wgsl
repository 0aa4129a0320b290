// Both nibbles of eight bytes, eight elements at a time.
const SPREAD_$NAME: u32 = 16u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 16u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}
