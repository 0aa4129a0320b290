// NVFP4: x = scale * e2m1, with an E4M3 scale. The float is read doubled.
fn load_$NAME(at: u32) -> f32 {
    return small_$NAME(get_$NAME_scales(at / GROUP_$NAME)) * (doubled_$NAME(code_$NAME(at)) * 0.5);
}
