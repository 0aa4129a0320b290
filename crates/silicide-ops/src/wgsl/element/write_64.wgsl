// A binding of 64-bit elements: stores `bits`, low word first, as element `i`.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<vec2<u32>>;
fn put_$NAME(i: u32, bits: vec2<u32>) {
    $NAME[p.$NAME_offset + i] = bits;
}
