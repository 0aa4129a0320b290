// Bits of halves, as `load_$NAME` makes floats of them.
fn floats_$NAME(bits: vec4<u32>) -> vec4<f32> {
    let small = vec4<f32>(bits & vec4<u32>(0x3ffu)) * 5.9604644775390625e-8;
    let magnitudes = bits & vec4<u32>(0x7fffu);
    let large = vec4<f32>(
        unpack2x16float(magnitudes.x).x, unpack2x16float(magnitudes.y).x,
        unpack2x16float(magnitudes.z).x, unpack2x16float(magnitudes.w).x,
    );
    let sizes = select(large, small, (bits & vec4<u32>(0x7c00u)) == vec4<u32>());
    return select(sizes, -sizes, (bits & vec4<u32>(0x8000u)) != vec4<u32>());
}
