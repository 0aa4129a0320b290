// Levels of iq4_nl and iq4_xs: a code of 4 bits names one of 16 signed bytes, which lie four to a word.
fn level_$NAME(code: u32) -> f32 {
    var levels = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return f32(bitcast<i32>(levels[code >> 2u] << (24u - ((code & 3u) << 3u))) >> 24u);
}

// The levels of four codes, one in each byte.
fn levels_$NAME(codes: u32) -> vec4<f32> {
    return vec4<f32>(
        level_$NAME(codes & 15u), level_$NAME((codes >> 8u) & 15u),
        level_$NAME((codes >> 16u) & 15u), level_$NAME(codes >> 24u),
    );
}
