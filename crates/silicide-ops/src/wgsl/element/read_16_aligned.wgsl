// A binding of 16-bit elements whose first lies at a multiple of 16 bytes. The element type adds `load_$NAME` and `floats_$NAME`.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<vec4<u32>>;

// The bits of element `i`, zero-extended.
fn get_$NAME(i: u32) -> u32 {
    let at = p.$NAME_offset + i;
    return ($NAME[at >> 3u][(at >> 1u) & 3u] >> ((at & 1u) << 4u)) & 0xffffu;
}

// Eight elements from `at`, a multiple of 8.
fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let words = $NAME[(p.$NAME_offset + at) >> 3u];
    let low = words & vec4<u32>(0xffffu);
    let high = words >> vec4<u32>(16u);
    return mat2x4<f32>(
        floats_$NAME(vec4<u32>(low.x, high.x, low.y, high.y)),
        floats_$NAME(vec4<u32>(low.z, high.z, low.w, high.w)),
    );
}
