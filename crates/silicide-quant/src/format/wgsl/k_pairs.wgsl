// Scales, then minima, of sub-blocks `s`, which is even, and `s + 1`, as `subs_$NAME` gives them one by one.
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
