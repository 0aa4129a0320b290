// q1_0: 128 elements in 18 bytes. x = scale * (2 * bit - 1).
//
//   bytes 0..2   scale, f16
//   bytes 2..18  a bit for an element, lowest first

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 7u) * 18u;
    let bit = (byte_$NAME(block + 2u + ((at & 127u) >> 3u)) >> (at & 7u)) & 1u;
    return (f32(bit) * 2.0 - 1.0) * half_$NAME(block);
}
