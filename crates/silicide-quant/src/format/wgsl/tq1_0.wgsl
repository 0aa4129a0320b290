// Element `at` of tq1_0 blocks.
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
