// Elements of `read_16.wgsl` as f16. Subnormals are converted by hand: devices may flush them to zero, though they are
// normal as f32.
fn load_$NAME(i: u32) -> f32 {
    let bits = get_$NAME(i);
    let small = f32(bits & 0x3ffu) * 5.9604644775390625e-8;
    let magnitude = select(unpack2x16float(bits & 0x7fffu).x, small, (bits & 0x7c00u) == 0u);
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}

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
