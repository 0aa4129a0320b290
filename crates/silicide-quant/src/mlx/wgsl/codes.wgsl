// The plane of codes: BITS bits each, packed into words, lowest bits first; 32 codes are BITS whole words. The argument
// begins at word `p.$NAME_offset` of the binding. A scale belongs to GROUP elements.
override BITS_$NAME: u32 = 4u;
override GROUP_$NAME: u32 = 32u;
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;

// The code of element `at`.
fn code_$NAME(at: u32) -> u32 {
    let words = p.$NAME_offset + (at >> 5u) * BITS_$NAME;
    let bit = (at & 31u) * BITS_$NAME;
    let low = $NAME[words + (bit >> 5u)];
    let high = $NAME[words + ((bit + BITS_$NAME - 1u) >> 5u)];
    let shift = bit & 31u;
    // A code that lies in one word is whole in the first part, and the second adds only bits above it or the same.
    return ((low >> shift) | (high << ((32u - shift) & 31u))) & ((1u << BITS_$NAME) - 1u);
}
