// The bits of 32-bit element `i`.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;
fn get_$NAME(i: u32) -> u32 {
    return $NAME[p.$NAME_offset + i];
}
