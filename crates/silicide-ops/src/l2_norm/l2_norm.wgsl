// y = x / max(sqrt(sum(x²)), eps).
struct RowState {
    scale: f32,
}

fn squares(v: f32, row: RowState) -> f32 {
    return v * v;
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    let norm = sqrt(sum_squares(at, RowState(), lane));
    // Not `max`, which may drop NaN.
    return RowState(1.0 / select(norm, p.eps, norm < p.eps));
}

fn finish(v: f32, i: u32, row: RowState) -> f32 {
    return v * row.scale;
}
