// y = x / max(sqrt(sum(x²)), eps), one workgroup per row.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    eps: f32,
}
var<immediate> p: Params;
override WG: u32 = 256;

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
    var squares = 0.0;
    for (var start = lane; start < p.k; start += WG * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, p.k); i += WG) {
            let v = load_x(base + i);
            part += v * v;
        }
        squares += part;
    }
    let norm = sqrt(workgroup_sum(squares, lane));
    // Not `max`, which may drop NaN.
    let scale = 1.0 / select(norm, p.eps, norm < p.eps);
    for (var i = lane; i < p.k; i += WG) {
        store_y(base + i, load_x(base + i) * scale);
    }
}
