// y[i] = x[0] + ... + x[i]. In each round every invocation takes 16 neighbouring elements: their sums are scanned in
// shared memory, then each invocation runs through its own.
var<workgroup> cells: array<f32, WG>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = team_row(group, groups, lane);
    var carry = 0.0;
    // Over `p.k`, not `at.k`: teams without a row take part in the barriers.
    for (var round = 0u; round < p.k; round += p.team * 16u) {
        let start = min(round + at.member * 16u, at.k);
        let end = min(start + 16u, at.k);
        var sum = 0.0;
        for (var i = start; i < end; i += 1u) {
            sum += element(at, i);
        }
        cells[lane] = sum;
        workgroupBarrier();
        for (var reach = 1u; reach < p.team; reach *= 2u) {
            var before = 0.0;
            if at.member >= reach {
                before = cells[lane - reach];
            }
            workgroupBarrier();
            cells[lane] += before;
            workgroupBarrier();
        }
        var running = carry;
        if at.member > 0u {
            running += cells[lane - 1u];
        }
        carry += cells[lane - at.member + p.team - 1u];
        for (var i = start; i < end; i += 1u) {
            running += element(at, i);
            store_y(at.base + i, running);
        }
        // The cells are written anew in the next round.
        workgroupBarrier();
    }
}
