// The sum of `$NAME(v, row)` over a row, in two levels: runs of 16 elements per invocation and then the runs, which keeps
// the rounding of long rows small.
fn sum_$NAME(at: TeamRow, row: RowState, lane: u32) -> f32 {
    var sum = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        let end = min(start + p.team * 16u, at.k);
        var part = 0.0;
        for (var i = start; i < end; i += p.team) {
            part += $NAME(element(at, i), row);
        }
        sum += part;
    }
    return team_sum(sum, lane, p.team);
}
