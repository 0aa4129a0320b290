// A binding of 8-bit elements: stores the low 8 bits of `bits` as element `i`. Atomic, because another invocation may write
// the other bytes of the word at the same time.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;
fn put_$NAME(i: u32, bits: u32) {
    let at = p.$NAME_offset + i;
    let shift = (at & 3u) << 3u;
    atomicAnd(&$NAME[at >> 2u], ~(0xffu << shift));
    atomicOr(&$NAME[at >> 2u], (bits & 0xffu) << shift);
}
