// y = x with an integer type on at least one side: rounded toward zero, held to the limits of y's type, NaN to 0. Values
// pass through sign and magnitude of 64 bits, so no device feature is needed. The kernel adds `number(i)`, which reads
// element i of x, and `element(i)`, which writes element i of y.
struct Params {
    x_offset: u32,
    y_offset: u32,
    count: u32,
    // Bits of an integer of at most 32, and whether it is signed.
    x_width: u32,
    x_signed: u32,
    // The largest magnitudes of y's type above and below zero.
    above_low: u32,
    above_high: u32,
    below_low: u32,
    below_high: u32,
}
var<immediate> p: Params;

struct Number { negative: bool, low: u32, high: u32 }

fn from_float(x: f32) -> Number {
    if (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u {
        return Number(false, 0u, 0u);
    }
    let size = trunc(abs(x));
    if size >= 18446744073709551616.0 {
        return Number(x < 0.0, 0xffffffffu, 0xffffffffu);
    }
    // Both steps are exact: a float's digits fit the word they fall in, or end in zeros.
    let high = floor(size / 4294967296.0);
    return Number(x < 0.0, u32(size - high * 4294967296.0), u32(high));
}

// From an integer of at most 32 bits.
fn from_narrow(bits: u32) -> Number {
    let negative = p.x_signed == 1u && (bits >> (p.x_width - 1u)) == 1u;
    let size = (~bits + 1u) & (0xffffffffu >> (32u - p.x_width));
    return Number(negative, select(bits, size, negative), 0u);
}

// From an integer of 64 bits.
fn from_wide(bits: vec2<u32>) -> Number {
    let negative = p.x_signed == 1u && (bits.y >> 31u) == 1u;
    let size = select(bits, negate(bits), negative);
    return Number(negative, size.x, size.y);
}

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
