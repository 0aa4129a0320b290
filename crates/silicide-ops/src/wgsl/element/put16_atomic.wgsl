// Stores the low 16 bits of `bits` as element `i`, on devices without 16-bit storage. The word's other half may
// belong to someone who is writing it now, hence the atomics.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;
fn put_$NAME(i: u32, bits: u32) {
    let at = p.$NAME_offset + i;
    let shift = (at & 1u) << 4u;
    atomicAnd(&$NAME[at >> 1u], ~(0xffffu << shift));
    atomicOr(&$NAME[at >> 1u], (bits & 0xffffu) << shift);
}
