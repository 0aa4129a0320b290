// MXFP4: x = 2^(exponent - 127) * e2m1. The float is read doubled, and the power is halved.
fn load_$NAME(at: u32) -> f32 {
    let exponent = get_$NAME_scales(at / GROUP_$NAME);
    return scaled_$NAME(doubled_$NAME(code_$NAME(at)), exponent, 128);
}
