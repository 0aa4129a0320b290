// The code book of an iq format: words of 16 bits, two to a u32. Bound, because compilers copy a constant array for
// every invocation.
@group(0) @binding($BINDING) var<storage, read> table_$NAME: array<u32>;
fn word_$NAME(code: u32) -> u32 {
    return (table_$NAME[code >> 1u] >> ((code & 1u) << 4u)) & 0xffffu;
}
