// Blocks as bytes. Positions count from the argument's first byte; `p.$NAME_offset` is where that lies in the binding.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;
fn byte_$NAME(position: u32) -> u32 {
    let at = p.$NAME_offset + position;
    return ($NAME[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu;
}
fn signed_$NAME(position: u32) -> f32 {
    return f32(bitcast<i32>(byte_$NAME(position) << 24u) >> 24u);
}
fn pair_$NAME(position: u32) -> u32 {
    return byte_$NAME(position) | (byte_$NAME(position + 1u) << 8u);
}
fn quad_$NAME(position: u32) -> u32 {
    // Of the one or two words that hold the four bytes, none past the last.
    let at = p.$NAME_offset + position;
    let shift = (at & 3u) << 3u;
    let low = $NAME[at >> 2u];
    let high = $NAME[(at + 3u) >> 2u];
    return select((low >> shift) | (high << (32u - shift)), low, shift == 0u);
}
// Blocks with halves lie at even positions, and so do the halves in them.
fn half_$NAME(position: u32) -> f32 {
    return widened_$NAME(even_$NAME(position));
}
fn even_$NAME(position: u32) -> u32 {
    let at = p.$NAME_offset + position;
    return ($NAME[at >> 2u] >> ((at & 2u) << 3u)) & 0xffffu;
}
// Bits of a half as f32. Below the normal range of halves by hand: devices may take such a half for zero, though it is
// a normal f32.
fn widened_$NAME(bits: u32) -> f32 {
    let small = f32(bits & 0x3ffu) * 5.9604644775390625e-8;
    let magnitude = select(unpack2x16float(bits & 0x7fffu).x, small, (bits & 0x7c00u) == 0u);
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}
// The nibble of element `i` of 32, whose low nibbles come first.
fn nibble_$NAME(position: u32, i: u32) -> u32 {
    return (byte_$NAME(position + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
}
