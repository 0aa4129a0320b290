// tq2_0: 256 ternary elements in 66 bytes. x = scale * (code - 1).
//
//   bytes 0..64   codes: byte 32 * h + i has elements 128 * h + i + (0, 32, 64, 96), two bits each
//   bytes 64..66  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 66u;
    let code = byte_$NAME(block + (((at >> 7u) & 1u) << 5u) + (at & 31u)) >> (((at >> 5u) & 3u) << 1u);
    return (f32(code & 3u) - 1.0) * half_$NAME(block + 64u);
}
