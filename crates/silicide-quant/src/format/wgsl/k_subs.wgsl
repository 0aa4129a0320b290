// Scale and minimum of sub-block `s` from the twelve bytes that q4_k and q5_k pack them in.
fn subs_$NAME(position: u32, s: u32) -> vec2<f32> {
    let i = s & 3u;
    let first = byte_$NAME(position + i);
    let second = byte_$NAME(position + 4u + i);
    let third = byte_$NAME(position + 8u + i);
    let low = vec2<u32>(first & 63u, second & 63u);
    let high = vec2<u32>((third & 15u) | ((first >> 6u) << 4u), (third >> 4u) | ((second >> 6u) << 4u));
    return vec2<f32>(select(low, high, vec2<bool>(s > 3u)));
}
