// q4_0, q4_1, q5_0 and q5_1 (files of silicide-quant have the layouts): code = (x - minimum) / scale + 1 / 2, cut off. The minimum is the
// least element, or one half of the codes below zero, where the scale is that of the element of the greatest magnitude.
//
// BITS: 4 or 5. HAS_MINIMUM: 1 if the minimum is stored.
const ITEM: u32 = 32u;

fn put_item(to: u32, source: u32) {
    let first = source * ITEM;
    let most = (1u << BITS) - 1u;
    begin_block(to * (2u + 2u * HAS_MINIMUM + 4u * BITS));
    var factor: f32;
    var minimum = 0.0;
    var middle = 0.5;
    if HAS_MINIMUM == 1u {
        let found = extremes(first);
        let scale = (found.y - found.x) / f32(most);
        factor = inverse(scale);
        minimum = found.x;
        put_half(scale);
        put_half(minimum);
    } else {
        let half = f32((most + 1u) / 2u);
        let scale = extreme(first) / -half;
        factor = inverse(scale);
        middle += half;
        put_half(scale);
    }
    var low: array<u32, 16>;
    var fifth = 0u;
    for (var i = 0u; i < ITEM; i++) {
        let code = min(u32(max((load_rows(first + i) - minimum) * factor + middle, 0.0)), most);
        low[i & 15u] |= (code & 15u) << ((i >> 4u) << 2u);
        fifth |= (code >> 4u) << i;
    }
    if BITS == 5u {
        for (var i = 0u; i < 4u; i++) {
            put_byte(fifth >> (8u * i));
        }
    }
    for (var i = 0u; i < 16u; i++) {
        put_byte(low[i]);
    }
    end_block();
}
