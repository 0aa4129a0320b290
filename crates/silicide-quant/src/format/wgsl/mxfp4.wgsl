// mxfp4: 32 elements in 17 bytes. x = 2^(exponent - 127) * e2m1.
//
//   byte  0      exponent
//   bytes 1..17  4-bit floats: low nibbles are elements 0..16, high nibbles elements 16..32

fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 17u;
    let doubled = doubled_$NAME(nibble_$NAME(block + 1u, at & 31u));
    // Half of 2^(exponent - 127). The smallest two are below the normal range, where devices may see zero, while the
    // product is not: those are reached in two steps.
    let exponent = byte_$NAME(block);
    let normal = max(exponent, 2u);
    return doubled * bitcast<f32>((normal - 1u) << 23u) * select(1.0, f32(1u + exponent) * 0.25, exponent < 2u);
}
