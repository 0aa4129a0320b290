// Sixteen elements of q6_k blocks: both nibbles of eight bytes.
const SPREAD_$NAME: u32 = 64u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 1u;
    let codes = octet_$NAME(block + (part << 6u) + (run << 5u) + i);
    let tops = octet_$NAME(block + 128u + (part << 5u) + i) >> vec2<u32>(run << 1u);
    let low = (codes & vec2<u32>(0x0f0f0f0fu)) | ((tops & vec2<u32>(0x03030303u)) << vec2<u32>(4u));
    let high = ((codes >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu)) | (tops & vec2<u32>(0x30303030u));
    let sub = block + 192u + (part << 3u) + (run << 1u) + (i >> 4u);
    let scale = half_$NAME(block + 208u);
    let first = scale * signed_$NAME(sub);
    let second = scale * signed_$NAME(sub + 4u);
    return mat4x4<f32>(
        first * (lanes_$NAME(low.x) - 32.0), first * (lanes_$NAME(low.y) - 32.0),
        second * (lanes_$NAME(high.x) - 32.0), second * (lanes_$NAME(high.y) - 32.0),
    );
}
