fn load_$NAME(i: u32) -> f32 {
    return bitcast<f32>(get_$NAME(i) << 16u);
}
