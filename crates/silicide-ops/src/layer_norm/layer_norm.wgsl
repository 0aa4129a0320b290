// y = (x - mean) / sqrt(variance + eps) · weight + bias.
struct RowState {
    // Sums are taken about the first element, so that an offset common to the row does not drown its spread. It is kept
    // apart from the rest of the mean for the same reason.
    first: f32,
    mean: f32,
    scale: f32,
}

fn offset(v: f32, row: RowState) -> f32 {
    return v - row.first;
}

fn squares(v: f32, row: RowState) -> f32 {
    let d = (v - row.first) - row.mean;
    return d * d;
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    var row = RowState();
    if at.member < at.k {
        row.first = element(at, at.member);
    }
    // Shared before anything is written: `y` may be `x`.
    row.first = team_first(row.first, lane, p.team);
    row.mean = sum_offset(at, row, lane) / f32(p.k);
    row.scale = inverseSqrt(sum_squares(at, row, lane) / f32(p.k) + p.eps);
    return row;
}

fn finish(v: f32, i: u32, row: RowState) -> f32 {
    return ((v - row.first) - row.mean) * row.scale * weight_or(i, 1.0) + bias_or(i, 0.0);
}
