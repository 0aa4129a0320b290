fn floats_$NAME(bits: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(bits << vec4<u32>(16u));
}
