// Element `at`: a 4-bit float times a power of two. Doubled, the former is whole; the latter is halved.
fn load_$NAME(at: u32) -> f32 {
    let exponent = get_$NAME_scales(at / GROUP_$NAME);
    return scaled_$NAME(doubled_$NAME(code_$NAME(at)), exponent, 128);
}
