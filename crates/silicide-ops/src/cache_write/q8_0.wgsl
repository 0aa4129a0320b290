// q8_0 (q8_0.wgsl of silicide-quant has the layout): scale = max |x| / 127, code = x / scale, rounded to nearest.
const ITEM: u32 = 32u;

fn put_item(to: u32, source: u32) {
    let first = source * ITEM;
    let scale = abs(extreme(first)) / 127.0;
    let factor = inverse(scale);
    begin_block(to * 34u);
    put_half(scale);
    for (var i = 0u; i < ITEM; i++) {
        let v = load_rows(first + i) * factor;
        // The float below one half: adding one half itself would carry the float below it to the next integer.
        let nearest = i32(v + select(0.49999997, -0.49999997, v < 0.0));
        put_byte(bitcast<u32>(clamp(nearest, -128, 127)));
    }
    end_block();
}
