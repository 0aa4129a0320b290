// Reduces a row in registers, then has its team's first invocation write the result.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = team_row(group, groups, lane);
    keep_row(at);
    let state = reduce_row(at, lane);
    if at.member == 0u && at.k > 0u {
        write_result(at.row, state);
    }
}
