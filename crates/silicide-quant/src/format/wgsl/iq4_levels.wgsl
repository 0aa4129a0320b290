// What a nibble of the non-linear 4-bit formats stands for: signed bytes, four to a word.
fn level_$NAME(code: u32) -> f32 {
    var levels = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
    return f32(bitcast<i32>(levels[code >> 2u] << (24u - ((code & 3u) << 3u))) >> 24u);
}
