// A code book of 16-bit words, in a binding of its own.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;
fn word_$NAME(code: u32) -> u32 {
    return ($NAME[p.$NAME_offset + (code >> 1u)] >> ((code & 1u) << 4u)) & 0xffffu;
}
