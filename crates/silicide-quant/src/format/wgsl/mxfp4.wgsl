// Element `at` of mxfp4 blocks.
fn load_$NAME(at: u32) -> f32 {
    let block = (at >> 5u) * 17u;
    let exponent = byte_$NAME(block);
    // Half of 2^(exponent - 127); the smallest two are subnormal.
    let bits = select((exponent - 1u) << 23u, 1u << (21u + exponent), exponent < 2u);
    return doubled_$NAME(nibble_$NAME(block + 1u, at & 31u)) * bitcast<f32>(bits);
}
