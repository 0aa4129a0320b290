// The largest `$NAME(v, row)` of a row in registers, at least `least`; NaN if there is one.
fn max_$NAME(at: TeamRow, row: RowState, least: f32, lane: u32) -> f32 {
    var largest = least;
    for (var c = 0u; c < KEPT; c++) {
        if kept_column(at, c) < at.k {
            let v = kept[c];
            let low = maximum($NAME(v.x, row), $NAME(v.y, row));
            largest = maximum(largest, maximum(low, maximum($NAME(v.z, row), $NAME(v.w, row))));
        }
    }
    return team_max(largest, lane, p.team);
}
