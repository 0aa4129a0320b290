// Reduces a row in registers, then stores `finish(v, i, row)` of each of its elements; `i` counts from `column`.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = team_row(group, groups, lane);
    keep_row(at);
    let row = reduce_row(at, lane);
    for (var c = 0u; c < KEPT; c++) {
        column = kept_column(at, c);
        if column < at.k {
            let v = kept[c];
            let y = vec4<f32>(finish(v.x, 0u, row), finish(v.y, 1u, row), finish(v.z, 2u, row), finish(v.w, 3u, row));
            store_four_combined(at.base + column, v);
            store_four_y(at.base + column, y);
        }
    }
}
