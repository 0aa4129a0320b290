// GEMV over elements that are their own codes.
const FACTORED_$NAME: bool = false;
fn prepare_$NAME(lane: u32) {}
struct Place_$NAME {
    unused: u32,
}
struct Codes_$NAME {
    values: mat4x4<f32>,
}
fn place_$NAME(at: u32, inside: u32) -> Place_$NAME {
    return Place_$NAME();
}
fn dot_$NAME(start: f32, codes: Codes_$NAME, x: mat4x4<f32>, sums: vec2<f32>) -> f32 {
    let low = four_products_$NAME(four_products_$NAME(start, codes.values[0], x[0]), codes.values[1], x[1]);
    return four_products_$NAME(four_products_$NAME(low, codes.values[2], x[2]), codes.values[3], x[3]);
}
// `start`, and the dot product of four.
fn four_products_$NAME(start: f32, values: vec4<f32>, x: vec4<f32>) -> f32 {
    return start + values.x * x.x + values.y * x.y + values.z * x.z + values.w * x.w;
}
fn weights_$NAME(at: u32) -> mat4x4<f32> {
    return codes_$NAME(head_$NAME(at), Place_$NAME()).values;
}
fn values_$NAME(codes: Codes_$NAME) -> mat4x4<f32> {
    return codes.values;
}
