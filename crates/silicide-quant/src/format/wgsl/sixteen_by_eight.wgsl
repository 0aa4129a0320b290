// Sixteen elements in a row, eight at a time.
const SPREAD_$NAME: u32 = 8u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 8u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}
