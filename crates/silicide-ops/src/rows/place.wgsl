// Which row an invocation works on. Workgroups are cut in teams of `p.team` neighbouring invocations, a power of
// two, with one row each.
struct Place {
    row: u32,
    // The row's first element in the tensor.
    base: u32,
    // The invocation's number in its team.
    member: u32,
    // Elements of the row. None past the last row, where a team only keeps the barriers company.
    k: u32,
}

fn place(group: vec3<u32>, groups: vec3<u32>, lane: u32) -> Place {
    let row = linear_group(group, groups) * (WG / p.team) + lane / p.team;
    return Place(row, row * p.k, lane % p.team, select(0u, p.k, row < p.rows));
}

// Rows are summed in two levels, runs of 16 elements per invocation and then the runs, which keeps the rounding of
// long rows small. Where the run that begins at `start` ends:
fn run_end(start: u32, k: u32) -> u32 {
    return min(start + p.team * 16u, k);
}
