// A binding of 8-bit elements, read as bits: element `i`, zero-extended.
@group(0) @binding($BINDING) var<storage, read> $NAME: array<u32>;
fn get_$NAME(i: u32) -> u32 {
    let at = p.$NAME_offset + i;
    return ($NAME[at >> 2u] >> ((at & 3u) << 3u)) & 0xffu;
}
