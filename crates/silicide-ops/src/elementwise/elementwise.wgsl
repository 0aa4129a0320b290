// Calls `element(i)` once for every i below `p.count`. A workgroup takes WG * PER_LANE neighbours, so that the
// accesses of its invocations are adjacent.
override WG: u32 = 256u;
const PER_LANE: u32 = 4u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = linear_group(group, groups) * (WG * PER_LANE) + lane;
    for (var k = 0u; k < PER_LANE; k = k + 1u) {
        let i = first + k * WG;
        if i < p.count {
            element(i);
        }
    }
}
