// nvfp4: 64 elements in 36 bytes, 4 groups of 16. x = group_scale * e2m1.
//
//   bytes 0..4   group_scales, unsigned E4M3
//   bytes 4..36  4-bit floats, 8 bytes for a group: low nibbles are its elements 0..8, high nibbles 8..16

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 6u) * 36u;
    let group = (at >> 4u) & 3u;
    let byte = byte_$NAME(block + group);
    let exponent = (byte & 0x7fu) >> 3u;
    let mantissa = byte & 7u;
    // Unsigned E4M3; below its normal range eighths of 2^-6, and the pattern for NaN is zero.
    let normal = bitcast<f32>(((exponent + 120u) << 23u) | (mantissa << 20u));
    let scale = select(select(normal, f32(mantissa) * 0.001953125, exponent == 0u), 0.0, byte == 0x7fu);
    let code = byte_$NAME(block + 4u + (group << 3u) + (at & 7u)) >> (((at >> 3u) & 1u) << 2u);
    return doubled_$NAME(code & 15u) * (scale * 0.5);
}
