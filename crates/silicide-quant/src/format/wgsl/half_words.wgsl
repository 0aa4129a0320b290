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
