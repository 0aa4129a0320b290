// y = f(a, b), element by element; `kind` is `Binary::code`. An input with a period is repeated: element i of y takes
// element (start + i) % period of it. Period 0: as long as y.
struct Params {
    a_offset: u32,
    b_offset: u32,
    y_offset: u32,
    count: u32,
    kind: u32,
    a_start: u32,
    a_period: u32,
    b_start: u32,
    b_period: u32,
}
var<immediate> p: Params;

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn apply(a: f32, b: f32) -> f32 {
    switch p.kind {
        case 1u: { return a - b; }
        case 2u: { return a * b; }
        case 3u: { return a / b; }
        // The device's own max and min may drop NaN, and comparisons with it are not to be relied on.
        case 4u: { return select(b, a, is_nan(a) || (!is_nan(b) && a > b)); }
        case 5u: { return select(b, a, is_nan(a) || (!is_nan(b) && a < b)); }
        default: { return a + b; }
    }
}

fn element(i: u32) {
    var at_a = i;
    if p.a_period != 0u {
        at_a = (p.a_start + i) % p.a_period;
    }
    var at_b = i;
    if p.b_period != 0u {
        at_b = (p.b_start + i) % p.b_period;
    }
    store_y(i, apply(load_a(at_a), load_b(at_b)));
}
