override WG: u32 = 256;

// Which row an invocation works on. Workgroups are cut in teams of `p.team` neighbouring invocations, a power of two, with
// one row each.
struct TeamRow {
    row: u32,
    // The row's first element in the tensor.
    base: u32,
    // The invocation's number in its team.
    member: u32,
    // Elements of the row. None past the last row, where a team only takes part in barriers.
    k: u32,
}

fn team_row(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> TeamRow {
    let row = linear_group(group, groups) * (WG / p.team) + lane / p.team;
    return TeamRow(row, row * p.k, lane % p.team, select(0u, p.k, row < p.rows));
}
