// The sum of `$NAME(v, row)` over a row in registers.
fn sum_$NAME(at: TeamRow, row: RowState, lane: u32) -> f32 {
    var sum = 0.0;
    for (var c = 0u; c < KEPT; c++) {
        if kept_column(at, c) < at.k {
            let v = kept[c];
            sum += ($NAME(v.x, row) + $NAME(v.y, row)) + ($NAME(v.z, row) + $NAME(v.w, row));
        }
    }
    return team_sum(sum, lane, p.team);
}
