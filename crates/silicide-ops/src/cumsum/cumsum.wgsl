// y[i] = x[0] + ... + x[i], one workgroup per row. In each round every invocation takes 16 neighbouring elements:
// their sums are scanned in shared memory, then each invocation runs through its own.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

var<workgroup> cells: array<f32, WG>;

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
    let base = row * p.k;
    var carry = 0.0;
    for (var round = 0u; round < p.k; round += WG * 16u) {
        let start = min(round + lane * 16u, p.k);
        let end = min(start + 16u, p.k);
        var sum = 0.0;
        for (var i = start; i < end; i += 1u) {
            sum += load_x(base + i);
        }
        cells[lane] = sum;
        workgroupBarrier();
        for (var reach = 1u; reach < WG; reach *= 2u) {
            var before = 0.0;
            if lane >= reach {
                before = cells[lane - reach];
            }
            workgroupBarrier();
            cells[lane] += before;
            workgroupBarrier();
        }
        var running = carry;
        if lane > 0u {
            running += cells[lane - 1u];
        }
        carry += cells[WG - 1u];
        for (var i = start; i < end; i += 1u) {
            running += load_x(base + i);
            store_y(base + i, running);
        }
        // The cells are written anew in the next round.
        workgroupBarrier();
    }
}
