// Sums and maxima over teams: runs of `team` neighbouring invocations, a power of two up to WG, which the kernel
// declares, and the same throughout the workgroup. A fixed tree in shared memory: no subgroup size is assumed, the
// order never changes. Call from uniform control flow; every invocation gets its team's result.
var<workgroup> team_cells: array<f32, WG>;

// The value of the team's first invocation.
fn team_first(value: f32, lane: u32, team: u32) -> f32 {
    // Other invocations may still read the result of the last call.
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    return team_cells[lane - lane % team];
}

fn team_sum(value: f32, lane: u32, team: u32) -> f32 {
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    for (var width = team / 2u; width > 0u; width = width / 2u) {
        if lane % team < width {
            team_cells[lane] = team_cells[lane] + team_cells[lane + width];
        }
        workgroupBarrier();
    }
    return team_cells[lane - lane % team];
}

// The larger, or NaN if either is NaN; the device's own max may drop it.
fn maximum(a: f32, b: f32) -> f32 {
    let b_is_nan = (bitcast<u32>(b) & 0x7fffffffu) > 0x7f800000u;
    let a_is_nan = (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
    return select(a, b, b_is_nan || (b > a && !a_is_nan));
}

fn team_max(value: f32, lane: u32, team: u32) -> f32 {
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    for (var width = team / 2u; width > 0u; width = width / 2u) {
        if lane % team < width {
            team_cells[lane] = maximum(team_cells[lane], team_cells[lane + width]);
        }
        workgroupBarrier();
    }
    return team_cells[lane - lane % team];
}
