// tq1_0: 256 ternary elements in 54 bytes. x = scale * (digit - 1).
// A byte is a fraction of 256 in base 3: each product with 3 carries the next digit out of the byte.
//
//   bytes 0..32   five digits each: digit d of byte i is element 32 * d + i
//   bytes 32..48  five digits each: digit d of byte 32 + i is element 160 + 16 * d + i
//   bytes 48..52  four digits each: digit d of byte 48 + i is element 240 + 4 * d + i
//   bytes 52..54  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 54u;
    let i = at & 255u;
    // Five digits in each of 32, then of 16 bytes, then four digits in each of four: first digits come first.
    var position = i & 31u;
    var place = i >> 5u;
    if (i >= 240u) {
        position = 48u + (i & 3u);
        place = (i - 240u) >> 2u;
    } else if (i >= 160u) {
        position = 32u + (i & 15u);
        place = (i - 160u) >> 4u;
    }
    var powers = array<u32, 5>(1u, 3u, 9u, 27u, 81u);
    let rest = (byte_$NAME(block + position) * powers[place]) & 0xffu;
    return (f32((rest * 3u) >> 8u) - 1.0) * half_$NAME(block + 52u);
}
