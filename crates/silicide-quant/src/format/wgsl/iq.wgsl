// Signs and levels of the iq2, iq3 and iq4 formats.

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

// The level of a code of iq4_nl and iq4_xs: one of 16 signed bytes, which lie four to a word.
fn level_$NAME(code: u32) -> f32 {
    var levels = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return f32(bitcast<i32>(levels[code >> 2u] << (24u - ((code & 3u) << 3u))) >> 24u);
}

// The levels of four codes of iq4_nl or iq4_xs, one in each byte.
fn levels_$NAME(codes: u32) -> vec4<f32> {
    return vec4<f32>(
        level_$NAME(codes & 15u), level_$NAME((codes >> 8u) & 15u),
        level_$NAME((codes >> 16u) & 15u), level_$NAME(codes >> 24u),
    );
}
