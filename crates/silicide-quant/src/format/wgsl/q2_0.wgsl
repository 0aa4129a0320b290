// q2_0: 64 elements in 18 bytes. x = scale * (code - 1).
//
//   bytes 0..2   scale, f16
//   bytes 2..18  codes of two bits, lowest first

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 6u) * 18u;
    let code = (byte_$NAME(block + 2u + ((at & 63u) >> 2u)) >> ((at & 3u) << 1u)) & 3u;
    return (f32(code) - 1.0) * half_$NAME(block);
}
