// A binding of blocks, read by bytes. `position` counts bytes from the argument's first byte, which is byte
// `p.$NAME_offset` of the binding. Only words that hold a byte of the value are read.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;

// A u8.
fn byte_$NAME(position: u32) -> u32 {
    let at = p.$NAME_offset + position;
    return ($NAME[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu;
}

// An i8.
fn signed_$NAME(position: u32) -> f32 {
    return f32(bitcast<i32>(byte_$NAME(position) << 24u) >> 24u);
}

// A u16.
fn pair_$NAME(position: u32) -> u32 {
    return byte_$NAME(position) | (byte_$NAME(position + 1u) << 8u);
}

// A u16 at an even position.
fn even_$NAME(position: u32) -> u32 {
    let at = p.$NAME_offset + position;
    return ($NAME[at >> 2u] >> ((at & 2u) << 3u)) & 0xffffu;
}

// A u32, from one or two words.
fn quad_$NAME(position: u32) -> u32 {
    let at = p.$NAME_offset + position;
    let shift = (at & 3u) << 3u;
    let low = $NAME[at >> 2u];
    let high = $NAME[(at + 3u) >> 2u];
    return select((low >> shift) | (high << (32u - shift)), low, shift == 0u);
}

// Eight bytes, from two or three words.
fn octet_$NAME(position: u32) -> vec2<u32> {
    let at = p.$NAME_offset + position;
    let shift = vec2<u32>((at & 3u) << 3u);
    let low = vec2<u32>($NAME[at >> 2u], $NAME[(at >> 2u) + 1u]);
    let high = vec2<u32>(low.y, $NAME[(at + 7u) >> 2u]);
    return select((low >> shift) | (high << (vec2<u32>(32u) - shift)), low, shift == vec2<u32>());
}

// An f16 at an even position: formats with f16 have blocks of an even size.
fn half_$NAME(position: u32) -> f32 {
    return widened_$NAME(even_$NAME(position));
}

// 1 if the device keeps subnormal f16 when it converts them.
override KEEPS_HALVES_$NAME: u32 = 0;

// The f32 of the f16 in the low half of a word. Subnormals are converted by hand where devices may flush them to zero, though they
// are normal as f32.
fn widened_$NAME(word: u32) -> f32 {
    if KEEPS_HALVES_$NAME == 1u {
        return unpack2x16float(word).x;
    }
    let bits = word & 0xffffu;
    let small = f32(bits & 0x3ffu) * 5.9604644775390625e-8;
    let magnitude = select(unpack2x16float(bits & 0x7fffu).x, small, (bits & 0x7c00u) == 0u);
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}

// The nibble of element `i` of 32 in 16 bytes: low nibbles are elements 0..16.
fn nibble_$NAME(position: u32, i: u32) -> u32 {
    return (byte_$NAME(position + (i & 15u)) >> ((i >> 4u) << 2u)) & 15u;
}

// A nibble of each of eight bytes, as bytes: the low ones for `shift` 0, the high ones for 4.
fn nibbles_$NAME(position: u32, shift: u32) -> vec2<u32> {
    return (octet_$NAME(position) >> vec2<u32>(shift)) & vec2<u32>(0x0f0f0f0fu);
}

// Eight bits as bytes with value 16: the fifth bits of eight codes.
fn fifths_$NAME(bits: u32) -> vec2<u32> {
    return ((vec2<u32>(bits << 4u, bits) & vec2<u32>(0xf0u)) * 0x00204081u) & vec2<u32>(0x10101010u);
}

// The four bytes of a word, as u8.
fn lanes_$NAME(word: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}

// The four bytes of a word, as i8.
fn signed_lanes_$NAME(word: u32) -> vec4<f32> {
    return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

// The f32 of both f16 in a word.
fn halves_$NAME(word: u32) -> vec2<f32> {
    if KEEPS_HALVES_$NAME == 1u {
        return unpack2x16float(word);
    }
    return vec2<f32>(widened_$NAME(word), widened_$NAME(word >> 16u));
}

// Two words from the middle of the first of three.
fn middle_$NAME(words: vec3<u32>) -> vec2<u32> {
    return (words.xy >> vec2<u32>(16u)) | (words.yz << vec2<u32>(16u));
}

// Sixteen values from codes: a scale and an offset for the first eight, and for the last.
fn scaled_$NAME(values: mat4x4<f32>, scales: vec2<f32>, offsets: vec2<f32>) -> mat4x4<f32> {
    let near = vec4<f32>(offsets.x);
    let far = vec4<f32>(offsets.y);
    return mat4x4<f32>(
        values[0] * scales.x + near, values[1] * scales.x + near,
        values[2] * scales.y + far, values[3] * scales.y + far,
    );
}
