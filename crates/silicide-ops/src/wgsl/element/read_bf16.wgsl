// Elements of `read_16.wgsl` as bf16: the high half of an f32.
fn load_$NAME(i: u32) -> f32 {
    return bitcast<f32>(get_$NAME(i) << 16u);
}

fn floats_$NAME(bits: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bits << vec4<u32>(16u));
}

// Four elements in two words.
fn four_$NAME(words: vec2<u32>) -> vec4<f32> {
    let low = bitcast<vec2<f32>>(words << vec2<u32>(16u));
    let high = bitcast<vec2<f32>>(words & vec2<u32>(0xffff0000u));
    return vec4<f32>(low.x, high.x, low.y, high.y);
}
