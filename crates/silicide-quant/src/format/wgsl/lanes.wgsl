// The four bytes of a word as numbers, and as signed ones.
fn lanes_$NAME(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}
fn signed_lanes_$NAME(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
// Eight bytes, of the two or three words that hold them.
fn octet_$NAME(position: u32) -> vec2<u32> {
    let at = p.$NAME_offset + position;
    let shift = vec2<u32>((at & 3u) << 3u);
    let low = vec2<u32>($NAME[at >> 2u], $NAME[(at >> 2u) + 1u]);
    let high = vec2<u32>(low.y, $NAME[(at + 7u) >> 2u]);
    return select((low >> shift) | (high << (vec2<u32>(32u) - shift)), low, shift == vec2<u32>());
}
// Two words of eight nibbles in all, at `position` and behind it, `shift` bits up in their bytes.
fn nibbles_$NAME(position: u32, shift: u32) -> vec2<u32> {
    return (octet_$NAME(position) >> vec2<u32>(shift)) & vec2<u32>(0x0f0f0f0fu);
}
// Eight bits as bytes of value 16.
fn fifths_$NAME(bits: u32) -> vec2<u32> {
    let spread = (vec2<u32>(bits, bits >> 4u) & vec2<u32>(15u)) * 0x00204081u;
    return (spread & vec2<u32>(0x01010101u)) << vec2<u32>(4u);
}
