// A binding of 32-bit elements, read as bits or as f32.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;

// The bits of element `i`.
fn get_$NAME(i: u32) -> u32 {
    return $NAME[p.$NAME_offset + i];
}

fn load_$NAME(i: u32) -> f32 {
    return bitcast<f32>(get_$NAME(i));
}

fn eight_$NAME(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(
        load_$NAME(at), load_$NAME(at + 1u), load_$NAME(at + 2u), load_$NAME(at + 3u),
        load_$NAME(at + 4u), load_$NAME(at + 5u), load_$NAME(at + 6u), load_$NAME(at + 7u),
    );
}

const SPREAD_$NAME: u32 = 8u;
fn sixteen_$NAME(at: u32) -> mat4x4<f32> {
    let low = eight_$NAME(at);
    let high = eight_$NAME(at + 8u);
    return mat4x4<f32>(low[0], low[1], high[0], high[1]);
}

// The same binding by vectors of four, for kernels that use nothing else of it: its offset is a multiple of 4.
@group(0) @binding($BINDING) var<storage, read> quads_$NAME: array<vec4<f32>>;

// GEMV: see `format/wgsl.rs`. A head is a vector.
const PERIOD_$NAME: u32 = 16u;
const STEP_$NAME: u32 = 4u;
fn codes_$NAME(head: u32, offsets: Offsets_$NAME) -> Codes_$NAME {
    return Codes_$NAME(mat4x4<f32>(
        quads_$NAME[head], quads_$NAME[head + 1u], quads_$NAME[head + 2u], quads_$NAME[head + 3u]
    ));
}
fn head_$NAME(at: u32) -> u32 {
    return (p.$NAME_offset + at) >> 2u;
}
