// A binding of 32-bit elements, written as bits or as f32.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<u32>;
fn put_$NAME(i: u32, bits: u32) {
    $NAME[p.$NAME_offset + i] = bits;
}

fn store_$NAME(i: u32, v: f32) {
    put_$NAME(i, bitcast<u32>(v));
}
