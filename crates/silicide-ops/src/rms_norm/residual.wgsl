// The sum is computed again where it is needed instead of read back, so `sum` may be `x` or `residual`. It is
// rounded to the type it is stored in: the norm is that of the stored sum.
struct Params {
    x_offset: u32,
    weight_offset: u32,
    y_offset: u32,
    residual_offset: u32,
    sum_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
    eps: f32,
    weighted: u32,
}
var<immediate> p: Params;

fn element(i: u32) -> f32 {
    return rounded(load_x(i) + load_residual(i));
}

fn keep(i: u32, v: f32) {
    store_sum(i, v);
}
