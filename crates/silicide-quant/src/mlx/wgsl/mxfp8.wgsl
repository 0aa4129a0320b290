// MXFP8: x = 2^(exponent - 127) * e4m3.
fn load_$NAME(at: u32) -> f32 {
    let exponent = get_$NAME_scales(at / GROUP_$NAME);
    return scaled_$NAME(small_$NAME(code_$NAME(at)), exponent, 127);
}
