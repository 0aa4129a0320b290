// Stores the low 16 bits of `bits` as element `i`.
enable wgpu_int16;
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<u16>;
fn put_$NAME(i: u32, bits: u32) {
    $NAME[p.$NAME_offset + i] = u16(bits);
}
