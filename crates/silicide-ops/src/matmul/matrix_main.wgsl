// The entry point of kernels in matrices that define `multiply(group, lane)`.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    quarter = subgroup;
    multiply(linear_group(group, groups), lane);
}
