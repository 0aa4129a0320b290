// GEMV over 32 codes of 4 bits in 16 bytes, which follow a scale of f16: low nibbles are elements 0..16, high nibbles elements 16..32.
const BLOCK_$NAME: u32 = 32u;
const BYTES_$NAME: u32 = 18u;
const PERIOD_$NAME: u32 = 64u;
const STEP_$NAME: u32 = 9u;
struct Offsets_$NAME {
    is_low: bool,
    // Bits below the scale in its word.
    scale: u32,
    // The word before the middle of which the codes begin, where blocks begin in the low half.
    code: u32,
}
fn offsets_$NAME(at: u32, inside: u32) -> Offsets_$NAME {
    return Offsets_$NAME(is_low_$NAME(at), select(16u, 0u, is_low_$NAME(at)), (inside & 8u) >> 2u);
}
fn nibble_words_$NAME(head: u32, offsets: Offsets_$NAME) -> vec2<u32> {
    let code = head + offsets.code;
    let words = vec3<u32>($NAME[code], $NAME[code + 1u], $NAME[code + 2u]);
    return select(words.yz, middle_$NAME(words), offsets.is_low);
}
