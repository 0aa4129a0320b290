// GEMV over the levels of codes of 4 bits, `level_$NAME(code)`, which are whole numbers: a table in shared memory has both levels of a
// byte as f16.
const FACTORED_$NAME: bool = true;
var<workgroup> pairs_$NAME: array<u32, 256>;
fn prepare_$NAME(lane: u32) {
    for (var i = lane; i < 256u; i += WG) {
        pairs_$NAME[i] = pack2x16float(vec2<f32>(level_$NAME(i & 15u), level_$NAME(i >> 4u)));
    }
    workgroupBarrier();
}
fn weights_$NAME(at: u32) -> mat4x4<f32> {
    return sixteen_$NAME(at);
}

// The levels of the low nibbles of eight bytes, then of the high nibbles.
fn levels_of_$NAME(codes: vec2<u32>) -> mat4x4<f32> {
    let near = four_bytes_$NAME(codes.x);
    let far = four_bytes_$NAME(codes.y);
    return mat4x4<f32>(near[0], far[0], near[1], far[1]);
}
fn four_bytes_$NAME(codes: u32) -> mat2x4<f32> {
    let first = unpack2x16float(pairs_$NAME[codes & 255u]);
    let second = unpack2x16float(pairs_$NAME[(codes >> 8u) & 255u]);
    let third = unpack2x16float(pairs_$NAME[(codes >> 16u) & 255u]);
    let fourth = unpack2x16float(pairs_$NAME[codes >> 24u]);
    return mat2x4<f32>(
        first.x, second.x, third.x, fourth.x,
        first.y, second.y, third.y, fourth.y,
    );
}
