// q8_1: 32 elements in 36 bytes, for activations. x = scale * code.
//
//   bytes 0..2    scale, f16
//   bytes 2..4    scale times the sum of the codes, f16
//   bytes 4..36   codes, i8

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 36u;
    return signed_$NAME(block + 4u + (at & 31u)) * half_$NAME(block);
}
