// y = f(x), element by element; `kind` is `Unary::code`.
struct Params { x_offset: u32, y_offset: u32, count: u32, kind: u32, parameter: f32, nan: f32 }
var<immediate> p: Params;

fn apply(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    switch p.kind {
        case 4u: { return select(x, 0.0, x < 0.0); }
        case 5u: { return tanh_of(x); }
        case 6u: { return exp(x); }
        // Results of the device's functions outside their domain are not specified.
        case 7u: { return select(log(x), p.nan, x < 0.0); }
        case 8u: { return select(sqrt(x), p.nan, x < 0.0); }
        case 9u: { return -x; }
        case 10u: { return p.parameter * tanh_of(x / p.parameter); }
        case 11u: { return p.parameter * x; }
        default: { return activate(p.kind, x); }
    }
}

fn element(i: u32) {
    store_y(i, apply(load_x(i)));
}
