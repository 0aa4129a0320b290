// GEMV over codes that are summed before they are scaled, without a table.
const FACTORED_$NAME: bool = true;
fn prepare_$NAME(lane: u32) {}
fn weights_$NAME(at: u32) -> mat4x4<f32> {
    return sixteen_$NAME(at);
}
