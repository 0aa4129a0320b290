// GEMV over blocks that begin in the low or in the high half of a word: blocks of BLOCK elements in BYTES bytes.
fn block_start_$NAME(at: u32) -> u32 {
    return p.$NAME_offset + at / BLOCK_$NAME * BYTES_$NAME;
}
fn head_$NAME(at: u32) -> u32 {
    return block_start_$NAME(at) >> 2u;
}
// Whether the block of element `at` begins in the low half.
fn is_low_$NAME(at: u32) -> bool {
    return (block_start_$NAME(at) & 2u) == 0u;
}

// The f16 in the half of a word in which the block begins.
fn scale_of_$NAME(word: u32, is_low: bool) -> f32 {
    return widened_$NAME(word >> select(16u, 0u, is_low));
}

// Four words, `shift` bits on, from word `at` of the binding. The bits behind them are of the word three after `last`.
fn shifted_$NAME(at: u32, last: u32, shift: u32) -> vec4<u32> {
    let low = vec4<u32>($NAME[at], $NAME[at + 1u], $NAME[at + 2u], $NAME[at + 3u]);
    let high = vec4<u32>(low.yzw, $NAME[last + 3u]);
    let shifts = vec4<u32>(shift);
    return select((low >> shifts) | (high << (vec4<u32>(32u) - shifts)), low, shifts == vec4<u32>());
}
