// GEMV over elements that are their own codes.
const FACTORED_$NAME: bool = false;
fn prepare_$NAME(lane: u32) {}
struct Offsets_$NAME {
    unused: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME();
}
fn initial_$NAME(sums: vec2<f32>) -> vec2<f32> {
    return vec2<f32>();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, products: vec2<f32>, sums: vec2<f32>) -> f32 {
    return start + (products.x + products.y);
}
fn weights_$NAME(at: u32) -> mat4x4<f32> {
    return codes_$NAME(head_$NAME(at), Offsets_$NAME()).values;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return codes.values;
}
