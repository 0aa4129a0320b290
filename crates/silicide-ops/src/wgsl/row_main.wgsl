// The entry point of kernels with a workgroup per row. They define `fn compute_row(row: u32, lane: u32)`, `override WG` and
// the parameter `p.rows`.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = linear_group(group, groups);
    if row >= p.rows {
        return;
    }
    compute_row(row, lane);
}
