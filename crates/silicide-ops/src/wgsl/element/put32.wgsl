// Stores `bits` as element `i`.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<u32>;
fn put_$NAME(i: u32, bits: u32) {
    $NAME[p.$NAME_offset + i] = bits;
}
