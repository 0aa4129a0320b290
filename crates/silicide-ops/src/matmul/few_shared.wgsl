// Adds the sums of a team through shared memory, for every device.
var<workgroup> cells: array<vec4<f32>, WG>;

// The sum over a team, in a fixed tree; for its first invocation. Call from uniform control flow.
fn team_sums(value: vec4<f32>, lane: u32) -> vec4<f32> {
    workgroupBarrier();
    cells[lane] = value;
    workgroupBarrier();
    for (var width = TEAM / 2u; width > 0u; width = width / 2u) {
        if lane % TEAM < width {
            cells[lane] = cells[lane] + cells[lane + width];
        }
        workgroupBarrier();
    }
    return cells[lane];
}
