// A binding of 64-bit elements, read as bits: element `i`, low word first.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<vec2<u32>>;
fn get_$NAME(i: u32) -> vec2<u32> {
    return $NAME[p.$NAME_offset + i];
}
