// A binding of 16-bit elements: stores the low 16 bits of `bits` as element `i`. Needs 16-bit storage.
enable wgpu_int16;
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<u16>;
fn put_$NAME(i: u32, bits: u32) {
    $NAME[p.$NAME_offset + i] = u16(bits);
}
