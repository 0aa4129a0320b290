// Blocks of q8_0: the largest magnitude becomes 127 steps.
const ITEM: u32 = 32u;

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
    put_cache(block, narrow_cache(min(scale, 65504.0)));
    for (var i = 0u; i < 16u; i++) {
        let from_here = first + 2u * i;
        put_cache(block + 1u + i, quant(from_here, factor) | (quant(from_here + 1u, factor) << 8u));
    }
}
