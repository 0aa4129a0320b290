// Element `at` of q8_k blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 292u;
    return bitcast<f32>(quad_$NAME(block)) * signed_$NAME(block + 4u + (at & 255u));
}
