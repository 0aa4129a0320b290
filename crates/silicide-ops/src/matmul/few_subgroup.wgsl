// Adds the sums of a team inside a subgroup, without barriers: no team is larger than the subgroups that the kernel requires (the
// smallest of the device, where it can't require a size), and workgroups are whole subgroups. The order is that of the tree in
// shared memory.
fn team_sums(value: vec4<f32>, lane: u32) -> vec4<f32> {
    var sum = value;
    for (var width = TEAM / 2u; width > 0u; width = width / 2u) {
        sum += subgroupShuffleXor(sum, width);
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_size) size: u32,
    @builtin(subgroup_invocation_id) invocation: u32,
) {
    // Numbered by subgroups, so that teams do not cross them however the device deals them out.
    multiply(linear_group(group, groups), subgroup * size + invocation);
}
