// q6_k: 256 elements in 210 bytes, 16 sub-blocks of 16. x = scale * sub_scale * (code - 32).
// Each half of 128 elements has four groups of 32:
//
//   bytes 0..128    low four bits, 64 bytes for a half: low nibbles are runs 0 and 1, high nibbles runs 2 and 3
//   bytes 128..192  high two bits, 32 bytes for a half: byte i has element i of runs 0, 1, 2, 3
//   bytes 192..208  sub_scales, i8
//   bytes 208..210  scale, f16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = (byte_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i) >> ((run >> 1u) << 2u)) & 15u;
    let high = (byte_$NAME(block + 128u + (part << 5u) + i) >> (run << 1u)) & 3u;
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return scale * (f32(low | (high << 4u)) - 32.0);
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = (at >> 8u) * 210u;
    let i = at & 31u;
    let part = (at >> 7u) & 1u;
    let run = (at >> 5u) & 3u;
    let low = nibbles_$NAME(block + (part << 6u) + ((run & 1u) << 5u) + i, (run >> 1u) << 2u);
    let position = block + 128u + (part << 5u) + i;
    let high = (octet_$NAME(position) >> vec2<u32>(run << 1u))
        & vec2<u32>(0x03030303u);
    let codes = low | (high << vec2<u32>(4u));
    let scale = half_$NAME(block + 208u) * signed_$NAME(block + 192u + (part << 3u) + (run << 1u) + (i >> 4u));
    return mat2x4<f32>(scale * (lanes_$NAME(codes.x) - 32.0), scale * (lanes_$NAME(codes.y) - 32.0));
}

// Both nibbles of eight bytes: elements of runs 0 and 2, or 1 and 3.
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
