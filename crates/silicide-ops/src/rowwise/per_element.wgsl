// Reduces a row, then stores `finish(v, i, row)` of each of its elements.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = team_row(group, groups, lane);
    let row = reduce_row(at, lane);
    for (var i = at.member; i < at.k; i += p.team) {
        let v = element(at, i);
        let y = finish(v, i, row);
        store_combined(at.base + i, v);
        store_y(at.base + i, y);
    }
}
