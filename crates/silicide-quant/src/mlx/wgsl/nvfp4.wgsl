// Element `at`: a 4-bit float times an 8-bit float.
fn load_$NAME(at: u32) -> f32 {
    return small_$NAME(get_$NAME_scales(at / GROUP_$NAME)) * (doubled_$NAME(code_$NAME(at)) * 0.5);
}
