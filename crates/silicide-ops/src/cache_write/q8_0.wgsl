// A cache of q8_0: 17 halves to a block, so neighbouring blocks, of other invocations, may share a word.
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;
fn put_$NAME(i: u32, bits: u32) {
    let at = (p.$NAME_offset >> 1u) + i;
    let shift = (at & 1u) << 4u;
    atomicAnd(&$NAME[at >> 1u], ~(0xffffu << shift));
    atomicOr(&$NAME[at >> 1u], (bits & 0xffffu) << shift);
}
