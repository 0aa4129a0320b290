// A binding of 16-bit elements, two to a word. The element type adds `load_$NAME` and `floats_$NAME`.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;

// The bits of element `i`, zero-extended.
fn get_$NAME(i: u32) -> u32 {
    let at = p.$NAME_offset + i;
    return ($NAME[at >> 1u] >> ((at & 1u) << 4u)) & 0xffffu;
}

// The bits of eight elements from element `at` of the binding, two to a word. No word past the last element is read.
fn words_$NAME(at: u32) -> vec4<u32> {
    let word = at >> 1u;
    let low = vec4<u32>($NAME[word], $NAME[word + 1u], $NAME[word + 2u], $NAME[word + 3u]);
    let high = vec4<u32>(low.yzw, $NAME[(at + 7u) >> 1u]);
    return select(low, (low >> vec4<u32>(16u)) | (high << vec4<u32>(16u)), vec4<bool>((at & 1u) == 1u));
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    let words = words_$NAME(p.$NAME_offset + at);
    let low = words & vec4<u32>(0xffffu);
    let high = words >> vec4<u32>(16u);
    return mat2x4<f32>(
        floats_$NAME(vec4<u32>(low.x, high.x, low.y, high.y)),
        floats_$NAME(vec4<u32>(low.z, high.z, low.w, high.w)),
    );
}

const SPREAD_$NAME: u32 = 8u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 8u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}

// The same binding by vectors of eight elements, for kernels that use nothing else of it: its offset is a multiple of 8.
@group(0) @binding($BINDING) var<storage, read> quads_$NAME: array<vec4<u32>>;

// GEMV: see `format/wgsl.rs`. A head is a vector.
const PERIOD_$NAME: u32 = 16u;
const STEP_$NAME: u32 = 2u;
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    let near = quads_$NAME[head];
    let far = quads_$NAME[head + 1u];
    return Codes_$NAME(mat4x4<f32>(
        four_$NAME(near.xy), four_$NAME(near.zw), four_$NAME(far.xy), four_$NAME(far.zw)
    ));
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset + at) >> 3u;
}
