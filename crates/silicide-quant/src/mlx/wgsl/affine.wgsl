// Element `at`: scale times code plus bias.
fn load_$NAME(at: u32) -> f32 {
    let group = at / GROUP_$NAME;
    return load_$NAME_scales(group) * f32(code_$NAME(at)) + load_$NAME_biases(group);
}
