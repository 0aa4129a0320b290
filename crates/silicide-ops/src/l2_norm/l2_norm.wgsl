// y = x / max(sqrt(sum(x²)), eps), one team per row.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
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
    let at = place(group, groups, lane);
    var squares = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, at.k); i += p.team) {
            let v = load_x(at.base + i);
            part += v * v;
        }
        squares += part;
    }
    let norm = sqrt(team_sum(squares, lane, p.team));
    // Not `max`, which may drop NaN.
    let scale = 1.0 / select(norm, p.eps, norm < p.eps);
    for (var i = at.member; i < at.k; i += p.team) {
        store_y(at.base + i, load_x(at.base + i) * scale);
    }
}
