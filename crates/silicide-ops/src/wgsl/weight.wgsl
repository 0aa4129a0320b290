// Weights of a softmax. Needs `is_nan`.
const LOWEST: f32 = -3.4028234663852886e38;

// exp(d) for d up to 0, or NaN. Devices may make a small number of exp(-infinity), and lose NaN.
fn weight(d: f32) -> f32 {
    if is_nan(d) {
        return d;
    }
    return select(exp(max(d, -87.0)), 0.0, d < -87.0);
}

// The larger, or NaN if either is NaN.
fn larger(a: f32, b: f32) -> f32 {
    return select(a, b, is_nan(b) || (b > a && !is_nan(a)));
}
