// Sums and maxima over teams: runs of `team` neighbouring invocations, a power of two up to WG, which the kernel
// declares, and the same throughout the workgroup. In shared memory: no subgroup size is assumed, the order never changes. Some invocations
// of a team have a share of its values each, and then each adds all shares, so there are as many barriers for any team. Call from uniform
// control flow; every invocation gets its team's result.
var<workgroup> team_cells: array<f32, WG>;
var<workgroup> team_shares: array<f32, WG>;

// The value of the team's first invocation.
fn team_first(value: f32, lane: u32, team: u32) -> f32 {
    // Other invocations may still read the result of the last call.
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    return team_cells[lane - lane % team];
}

// How many invocations of a team have shares: about the square root.
fn team_parts(team: u32) -> u32 {
    return 1u << (firstTrailingBit(team) / 2u);
}

fn team_sum(value: f32, lane: u32, team: u32) -> f32 {
    if team == 1u {
        return value;
    }
    let parts = team_parts(team);
    let first = lane - lane % team;
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    if lane - first < parts {
        var sum = value;
        for (var i = lane + parts; i < first + team; i += parts) {
            sum += team_cells[i];
        }
        team_shares[lane] = sum;
    }
    workgroupBarrier();
    var sum = team_shares[first];
    for (var i = 1u; i < parts; i++) {
        sum += team_shares[first + i];
    }
    return sum;
}

// The larger, or NaN if either is NaN; the device's own max may drop it.
fn maximum(a: f32, b: f32) -> f32 {
    let b_is_nan = (bitcast<u32>(b) & 0x7fffffffu) > 0x7f800000u;
    let a_is_nan = (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
    return select(a, b, b_is_nan || (b > a && !a_is_nan));
}

fn team_max(value: f32, lane: u32, team: u32) -> f32 {
    if team == 1u {
        return value;
    }
    let parts = team_parts(team);
    let first = lane - lane % team;
    workgroupBarrier();
    team_cells[lane] = value;
    workgroupBarrier();
    if lane - first < parts {
        var largest = value;
        for (var i = lane + parts; i < first + team; i += parts) {
            largest = maximum(largest, team_cells[i]);
        }
        team_shares[lane] = largest;
    }
    workgroupBarrier();
    var largest = team_shares[first];
    for (var i = 1u; i < parts; i++) {
        largest = maximum(largest, team_shares[first + i]);
    }
    return largest;
}
