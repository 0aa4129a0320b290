// A binding of 32-bit elements whose first lies at a multiple of 16 bytes.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<vec4<u32>>;

// The bits of element `i`.
fn get_$NAME(i: u32) -> u32 {
    let at = p.$NAME_offset + i;
    return $NAME[at >> 2u][at & 3u];
}

fn load_$NAME(i: u32) -> f32 {
    return bitcast<f32>(get_$NAME(i));
}

// Four elements from `i`, a multiple of 4.
fn four_$NAME(i: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>($NAME[(p.$NAME_offset + i) >> 2u]);
}

// Eight elements from `at`, a multiple of 8.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(four_$NAME(at), four_$NAME(at + 4u));
}
