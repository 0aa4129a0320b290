// q8_k: 256 elements in 292 bytes, for activations. x = scale * code.
//
//   bytes 0..4      scale, f32
//   bytes 4..260    codes, i8
//   bytes 260..292  sums of 16 codes each, i16; not read here

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 292u;
    return bitcast<f32>(quad_$NAME(block)) * signed_$NAME(block + 4u + (at & 255u));
}
