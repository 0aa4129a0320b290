// The number of this workgroup in a grid of `wgsl::grid`, which may have more workgroups than were asked for: check it.
fn linear_group(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.x + groups.x * (group.y + groups.y * group.z);
}
