// A binding of 16-bit elements on devices without 16-bit storage: stores the low 16 bits of `bits` as element `i`. Atomic,
// because another invocation may write the other half of the word at the same time.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;
fn put_$NAME(i: u32, bits: u32) {
    let at = p.$NAME_offset + i;
    let shift = (at & 1u) << 4u;
    atomicAnd(&$NAME[at >> 1u], ~(0xffffu << shift));
    atomicOr(&$NAME[at >> 1u], (bits & 0xffffu) << shift);
}
