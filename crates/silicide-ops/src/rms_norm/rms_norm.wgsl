// y = v / sqrt(mean(v²) + eps) · weight; v is x, or x + residual as stored.
struct RowState {
    scale: f32,
}

fn combine(x: f32, residual: f32) -> f32 {
    return x + residual;
}

fn squares(v: f32, row: RowState) -> f32 {
    return v * v;
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    return RowState(inverseSqrt(sum_squares(at, RowState(), lane) / f32(p.k) + p.eps));
}

fn finish(v: f32, i: u32, row: RowState) -> f32 {
    return v * row.scale * weight_or(i, 1.0);
}
