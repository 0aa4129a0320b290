// Sub-block scales and minima of q4_k and q5_k: eight of each, 6 bits, in the twelve bytes at `position`.
//
//   bytes 0..4   scales 0..4 in the low 6 bits; the high 2 bits of scales 4..8 above them
//   bytes 4..8   minima 0..4 in the low 6 bits; the high 2 bits of minima 4..8 above them
//   bytes 8..12  low 4 bits of scales 4..8 in the low nibbles, of minima 4..8 in the high nibbles

// Scale and minimum of sub-block `s`.
fn subs_$NAME(position: u32, s: u32) -> vec2<f32> {
    let i = s & 3u;
    let first = byte_$NAME(position + i);
    let second = byte_$NAME(position + 4u + i);
    let third = byte_$NAME(position + 8u + i);
    let low = vec2<u32>(first & 63u, second & 63u);
    let high = vec2<u32>((third & 15u) | ((first >> 6u) << 4u), (third >> 4u) | ((second >> 6u) << 4u));
    return vec2<f32>(select(low, high, vec2<bool>(s > 3u)));
}

// Scales in the first column, minima in the second, of sub-blocks `s` and `s + 1`; `s` is even.
fn sub_pairs_$NAME(position: u32, s: u32) -> mat2x2<f32> {
    let i = s & 2u;
    let first = bytes_of_$NAME(even_$NAME(position + i));
    let second = bytes_of_$NAME(even_$NAME(position + 4u + i));
    let third = bytes_of_$NAME(even_$NAME(position + 8u + i));
    let six = vec2<u32>(63u);
    let two = vec2<u32>(6u);
    let four = vec2<u32>(4u);
    let scales = (third & vec2<u32>(15u)) | ((first >> two) << four);
    let minima = (third >> four) | ((second >> two) << four);
    let late = vec2<bool>(s > 3u);
    return mat2x2<f32>(
        vec2<f32>(select(first & six, scales, late)),
        vec2<f32>(select(second & six, minima, late)),
    );
}
fn bytes_of_$NAME(pair: u32) -> vec2<u32> {
    return vec2<u32>(pair & 255u, pair >> 8u);
}

// Where the scales and minima of two sub-blocks lie in three words. Late sub-blocks have their low bits in the third.
struct SubOffsets_$NAME {
    shift: u32,
    // Of the first and the second word: bits that are left out below, and those that are kept.
    first_shift: u32,
    first_mask: u32,
    third_mask: u32,
}
// That of sub-blocks `s` and `s + 1`; `s` is even.
fn sub_offsets_$NAME(s: u32) -> SubOffsets_$NAME {
    let is_late = s > 3u;
    return SubOffsets_$NAME(
        (s & 2u) << 3u, select(0u, 2u, is_late), select(0x3f3f3f3fu, 0x30303030u, is_late),
        select(0u, 0x0f0f0f0fu, is_late),
    );
}

// Two scales, then two minima.
fn subs_of_words_$NAME(words: vec3<u32>, offsets: SubOffsets_$NAME) -> vec4<f32> {
    let first = ((words.x >> offsets.shift) & 0xffffu) | ((words.y >> offsets.shift) << 16u);
    let third = (words.z >> offsets.shift) & 0xffffu;
    // Low nibbles are of scales, high nibbles of minima.
    let low = third | (third << 12u);
    return lanes_$NAME(((first >> offsets.first_shift) & offsets.first_mask) | (low & offsets.third_mask));
}

// GEMM: scale and minimum of sub-block `s`, which is uniform.
fn subs_of_$NAME(words: vec3<u32>, s: u32) -> vec2<f32> {
    let is_late = s > 3u;
    let shift = vec2<u32>((s & 3u) << 3u);
    let first = (words.xy >> (shift + vec2<u32>(select(0u, 2u, is_late)))) & vec2<u32>(select(0x3fu, 0x30u, is_late));
    let third = (words.zz >> (shift + vec2<u32>(0u, 4u))) & vec2<u32>(select(0u, 0x0fu, is_late));
    return vec2<f32>(first | third);
}
