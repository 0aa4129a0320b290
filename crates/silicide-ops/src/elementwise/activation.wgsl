// Activations. Written out where the device's own function may lose small values (tanh) or is not there (erf).
// None of them need be right for NaN: callers pass NaN through themselves, as the device's exp may not.

fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

fn sigmoid_of(x: f32) -> f32 {
    let tail = exp(-abs(x));
    let large = 1.0 / (1.0 + tail);
    return select(large, tail * large, x < 0.0);
}

fn tanh_of(x: f32) -> f32 {
    let size = min(abs(x), 20.0);
    let large = 1.0 - 2.0 / (exp(size + size) + 1.0);
    // (tanh x - x) / x^3 in x^2 for |x| <= 0.64, to 6e-9.
    let square = size * size;
    var curve = -0.005591011606156826;
    curve = curve * square + 0.02053881622850895;
    curve = curve * square - 0.05370965600013733;
    curve = curve * square + 0.133310928940773;
    curve = curve * square - 0.33333268761634827;
    let small = curve * square * size + size;
    let result = select(large, small, size < 0.625);
    return select(result, -result, x < 0.0);
}

// (1 + erf(x / sqrt 2)) / 2, accurate in the lower tail too.
fn normal_cdf(x: f32) -> f32 {
    let t = min(abs(x), 15.0);
    // The upper tail over e^(-t^2 / 2), in (t - 3) / (t + 3), to 1e-8.
    let v = (t - 3.0) / (t + 3.0);
    var ratio = 5.267638698569499e-05;
    ratio = ratio * v + 0.00011450454621808603;
    ratio = ratio * v - 0.00033854591310955584;
    ratio = ratio * v - 0.000982822384685278;
    ratio = ratio * v + 0.0029042137321084738;
    ratio = ratio * v + 0.0061318110674619675;
    ratio = ratio * v - 0.04621323570609093;
    ratio = ratio * v + 0.12322505563497543;
    ratio = ratio * v - 0.20640261471271515;
    ratio = ratio * v + 0.12151394784450531;
    let tail = exp(-0.5 * t * t) * ratio;
    return select(1.0 - tail, tail, x < 0.0);
}

fn silu_of(x: f32) -> f32 {
    let bounded = max(x, -3.4028234e38);
    return bounded * sigmoid_of(bounded);
}

fn gelu_tanh_of(x: f32) -> f32 {
    // (1 + tanh u) / 2 is sigmoid(2 u); past 1e10 the cube could overflow where it no longer matters.
    let near = clamp(x, -1e10, 1e10);
    let inner = 1.5957691216057308 * near + 0.07135481627260025 * (near * near * near);
    return max(x, -3.4028234e38) * sigmoid_of(inner);
}

fn gelu_erf_of(x: f32) -> f32 {
    return max(x, -3.4028234e38) * normal_cdf(x);
}

// The activation numbered as in `Activation::code`.
fn activate(kind: u32, x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    switch kind {
        case 0u: { return silu_of(x); }
        case 1u: { return gelu_tanh_of(x); }
        case 2u: { return gelu_erf_of(x); }
        default: { return sigmoid_of(x); }
    }
}
