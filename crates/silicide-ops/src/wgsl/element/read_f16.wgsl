// Elements of `read_16.wgsl` as f16. Subnormals are converted by hand where devices may flush them to zero, though they are
// normal as f32.
// 1 if the device keeps subnormal f16 when it converts them.
override KEEPS_HALVES_$NAME: u32 = 0;

fn load_$NAME(i: u32) -> f32 {
    let bits = get_$NAME(i);
    if KEEPS_HALVES_$NAME == 1u {
        return unpack2x16float(bits).x;
    }
    let small = f32(bits & 0x3ffu) * 5.9604644775390625e-8;
    let magnitude = select(unpack2x16float(bits & 0x7fffu).x, small, (bits & 0x7c00u) == 0u);
    return select(magnitude, -magnitude, (bits & 0x8000u) != 0u);
}

fn floats_$NAME(bits: vec4<u32>) -> vec4<f32> {
    if KEEPS_HALVES_$NAME == 1u {
        return vec4<f32>(unpack2x16float(bits.x).x, unpack2x16float(bits.y).x, unpack2x16float(bits.z).x, unpack2x16float(bits.w).x);
    }
    let small = vec4<f32>(bits & vec4<u32>(0x3ffu)) * 5.9604644775390625e-8;
    let magnitudes = bits & vec4<u32>(0x7fffu);
    let large = vec4<f32>(
        unpack2x16float(magnitudes.x).x, unpack2x16float(magnitudes.y).x,
        unpack2x16float(magnitudes.z).x, unpack2x16float(magnitudes.w).x,
    );
    let sizes = select(large, small, (bits & vec4<u32>(0x7c00u)) == vec4<u32>());
    return select(sizes, -sizes, (bits & vec4<u32>(0x8000u)) != vec4<u32>());
}

// Four elements in two words.
fn four_$NAME(words: vec2<u32>) -> vec4<f32> {
    if KEEPS_HALVES_$NAME == 1u {
        return vec4<f32>(unpack2x16float(words.x), unpack2x16float(words.y));
    }
    return floats_$NAME(vec4<u32>(words.x & 0xffffu, words.x >> 16u, words.y & 0xffffu, words.y >> 16u));
}
