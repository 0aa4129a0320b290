// A binding of 32-bit elements whose first lies at a multiple of 16 bytes, written by vectors.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<vec4<u32>>;

// Stores four elements from `i`, a multiple of 4.
fn store_four_$NAME(i: u32, v: vec4<f32>) {
    $NAME[(p.$NAME_offset + i) >> 2u] = bitcast<vec4<u32>>(v);
}
