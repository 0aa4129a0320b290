// Code words of 16 bits, two to a word.
@group(0) @binding($BINDING) var<storage, read> table_$NAME: array<u32>;
fn word_$NAME(code: u32) -> u32 {
    return (table_$NAME[code >> 1u] >> ((code & 1u) << 4u)) & 0xffffu;
}
