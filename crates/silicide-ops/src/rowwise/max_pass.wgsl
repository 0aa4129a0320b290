// The largest `$NAME(v, row)` of a row, at least `least`; NaN if there is one.
fn max_$NAME(at: TeamRow, row: RowState, least: f32, lane: u32) -> f32 {
    var largest = least;
    for (var i = at.member; i < at.k; i += p.team) {
        largest = maximum(largest, $NAME(element(at, i), row));
    }
    return team_max(largest, lane, p.team);
}
