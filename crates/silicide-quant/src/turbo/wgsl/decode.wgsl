// Blocks of TurboQuant: a scale, f16, then planes of codes. x = scale * level[code], of coordinates that are rotated.

// Element `i` of a plane of `bits` bits.
fn code_$NAME(plane: u32, bits: u32, i: u32) -> u32 {
    return (byte_$NAME(plane + ((i * bits) >> 3u)) >> ((i * bits) & 7u)) & ((1u << bits) - 1u);
}

fn scale_$NAME(block: u32) -> f32 {
    if (BYTES_$NAME & 1u) == 1u {
        return widened_$NAME(pair_$NAME(block));
    }
    return half_$NAME(block);
}

fn load_$NAME(at: u32) -> f32 {
    let block = at / LEN_$NAME * BYTES_$NAME;
    let i = at % LEN_$NAME;
    let low = code_$NAME(block + 2u, LOW_$NAME, i);
    if i < WITH_HIGH_$NAME {
        let high = code_$NAME(block + 2u + LEN_$NAME * LOW_$NAME / 8u, HIGH_$NAME, i);
        return scale_$NAME(block) * first_level_$NAME(low | (high << LOW_$NAME));
    }
    return scale_$NAME(block) * rest_level_$NAME(low);
}

// The codes of eight elements from `i` on, a multiple of 8, of a plane.
struct EightCodes_$NAME {
    a: vec4<u32>,
    b: vec4<u32>,
}

fn eight_codes_$NAME(plane: u32, bits: u32, i: u32) -> EightCodes_$NAME {
    let from_here = plane + (i >> 3u) * bits;
    let lanes = vec4<u32>(0u, 1u, 2u, 3u) * bits;
    let mask = vec4<u32>((1u << bits) - 1u);
    if bits == 8u {
        let bytes = octet_$NAME(from_here);
        return EightCodes_$NAME((vec4<u32>(bytes.x) >> lanes) & mask, (vec4<u32>(bytes.y) >> lanes) & mask);
    }
    var word: u32;
    if bits == 4u {
        word = quad_$NAME(from_here);
    } else if bits == 2u {
        word = pair_$NAME(from_here);
    } else {
        word = byte_$NAME(from_here);
    }
    return EightCodes_$NAME((vec4<u32>(word) >> lanes) & mask, (vec4<u32>(word >> (4u * bits)) >> lanes) & mask);
}

fn first_levels_$NAME(codes: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(
        first_level_$NAME(codes.x), first_level_$NAME(codes.y), first_level_$NAME(codes.z), first_level_$NAME(codes.w)
    );
}

fn rest_levels_$NAME(codes: vec4<u32>) -> vec4<f32> {
    return vec4<f32>(
        rest_level_$NAME(codes.x), rest_level_$NAME(codes.y), rest_level_$NAME(codes.z), rest_level_$NAME(codes.w)
    );
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let block = at / LEN_$NAME * BYTES_$NAME;
    let i = at % LEN_$NAME;
    let scale = scale_$NAME(block);
    let low = eight_codes_$NAME(block + 2u, LOW_$NAME, i);
    if i < WITH_HIGH_$NAME {
        let high = eight_codes_$NAME(block + 2u + LEN_$NAME * LOW_$NAME / 8u, HIGH_$NAME, i);
        return mat2x4<f32>(
            scale * first_levels_$NAME(low.a | (high.a << vec4<u32>(LOW_$NAME))),
            scale * first_levels_$NAME(low.b | (high.b << vec4<u32>(LOW_$NAME))),
        );
    }
    return mat2x4<f32>(scale * rest_levels_$NAME(low.a), scale * rest_levels_$NAME(low.b));
}
