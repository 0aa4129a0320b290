// Conversions with an integer on one side at least, through sign and magnitude of 64 bits: no device feature is
// needed and every integer type passes unharmed. `x_width` is the bits of a 32-bit or narrower integer source; the
// limits are the largest magnitudes that the target holds above and below zero.
struct Params {
    x_offset: u32,
    y_offset: u32,
    count: u32,
    x_width: u32,
    x_signed: u32,
    above_low: u32,
    above_high: u32,
    below_low: u32,
    below_high: u32,
}
var<immediate> p: Params;

struct Number { negative: bool, low: u32, high: u32 }

// -x of a 64-bit integer.
fn negate(x: vec2<u32>) -> vec2<u32> {
    let low = ~x.x + 1u;
    return vec2<u32>(low, ~x.y + select(0u, 1u, low == 0u));
}

fn to_bits(x: Number) -> vec2<u32> {
    let limit = select(vec2<u32>(p.above_low, p.above_high), vec2<u32>(p.below_low, p.below_high), x.negative);
    let over = x.high > limit.y || (x.high == limit.y && x.low > limit.x);
    let size = select(vec2<u32>(x.low, x.high), limit, over);
    return select(size, negate(size), x.negative);
}

fn to_float(x: Number) -> f32 {
    let size = f32(x.high) * 4294967296.0 + f32(x.low);
    return select(size, -size, x.negative);
}
