// y = softmax(scale · x + mask).
struct RowState {
    largest: f32,
    share: f32,
}

const LOWEST: f32 = -3.4028234663852886e38;

fn combine(x: f32, mask: f32) -> f32 {
    return x * p.scale + mask;
}

// `unmasked` is 1 where `combine` has scaled `x`, otherwise the scale.
fn logit(v: f32, row: RowState) -> f32 {
    return v * p.unmasked;
}

// exp(logit - largest). Devices may make a small number of exp(-infinity), and lose NaN.
fn exponential(v: f32, row: RowState) -> f32 {
    let d = logit(v, row) - row.largest;
    if (bitcast<u32>(d) & 0x7fffffffu) > 0x7f800000u {
        return d;
    }
    return select(exp(max(d, -87.0)), 0.0, d < -87.0);
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    var row = RowState();
    // From the lowest number up, so that a row of -infinity has a finite maximum and its weights are 0.
    row.largest = max_logit(at, row, LOWEST, lane);
    let sum = sum_exponential(at, row, lane);
    // Not `sum != 0`, which is false of NaN too.
    row.share = select(1.0 / sum, 0.0, sum == 0.0);
    return row;
}

fn finish(v: f32, i: u32, row: RowState) -> f32 {
    return exponential(v, row) * row.share;
}
