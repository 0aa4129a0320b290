fn load_$NAME(i: u32) -> f32 {
    return unpack2x16float(get_$NAME(i)).x;
}
