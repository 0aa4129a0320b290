// Signs and levels of the iq2 and iq3 formats.

// Eight signs from the seven stored: the eighth makes the number of negative elements even.
fn even_signs_$NAME(seven: u32) -> u32 {
    let bits = seven & 0x7fu;
    return bits | ((countOneBits(bits) & 1u) << 7u);
}

// `value` with the sign of element `i` of eight.
fn negated_$NAME(value: f32, signs: u32, i: u32) -> f32 {
    return select(value, -value, ((signs >> (i & 7u)) & 1u) == 1u);
}

// The level of element `i` of eight in a code word of an iq2 format.
fn level2_$NAME(word: u32, i: u32) -> f32 {
    let index = (word >> ((i & 7u) << 1u)) & 3u;
    return select(select(8.0, 25.0, index == 1u), 43.0, index == 2u);
}
