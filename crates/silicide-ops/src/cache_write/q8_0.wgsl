// A cache of q8_0 blocks (q8_0.wgsl of silicide-quant has the layout): scale = max |x| / 127, code = x / scale, rounded to
// nearest. Blocks are 17 u16, so blocks of two invocations may share a word: stores are atomic.
const ITEM: u32 = 32u;
@group(0) @binding($BINDING) var<storage, read_write> $NAME: array<atomic<u32>>;

// Stores u16 `i` of the cache; the offset of block formats counts bytes.
fn put_$NAME(i: u32, bits: u32) {
    let at = (p.$NAME_offset >> 1u) + i;
    let shift = (at & 1u) << 4u;
    atomicAnd(&$NAME[at >> 1u], ~(0xffffu << shift));
    atomicOr(&$NAME[at >> 1u], (bits & 0xffffu) << shift);
}

fn quant(source: u32, factor: f32) -> u32 {
    let v = load_rows(source) * factor;
    // The float below one half: adding one half itself would carry the float below it to the next integer.
    let nearest = i32(v + select(0.49999997, -0.49999997, v < 0.0));
    return bitcast<u32>(clamp(nearest, -128, 127)) & 0xffu;
}

fn put_item(to: u32, source: u32) {
    let first = source * ITEM;
    var most = 0.0;
    for (var i = 0u; i < ITEM; i++) {
        most = max(most, abs(load_rows(first + i)));
    }
    let scale = most / 127.0;
    var factor = 0.0;
    if scale > 0.0 {
        factor = 1.0 / scale;
    }
    let block = to * 17u;
    put_$NAME(block, narrow_$NAME(min(scale, 65504.0)));
    for (var i = 0u; i < 16u; i++) {
        let from_here = first + 2u * i;
        put_$NAME(block + 1u + i, quant(from_here, factor) | (quant(from_here + 1u, factor) << 8u));
    }
}
