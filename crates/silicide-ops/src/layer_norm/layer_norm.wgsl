// y = (x - mean) / sqrt(variance + eps) · weight + bias, one team per row.
struct Params {
    x_offset: u32,
    weight_offset: u32,
    bias_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
    eps: f32,
    weighted: u32,
    biased: u32,
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
    // Sums are taken about the first element, so that an offset common to the row does not drown its spread. It is
    // kept apart from the rest of the mean for the same reason, and shared before anything is written, as `y` may
    // be `x`.
    var first = 0.0;
    if at.member < at.k {
        first = load_x(at.base + at.member);
    }
    first = team_first(first, lane, p.team);
    var sum = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, at.k); i += p.team) {
            part += load_x(at.base + i) - first;
        }
        sum += part;
    }
    let mean = team_sum(sum, lane, p.team) / f32(p.k);
    var squares = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, at.k); i += p.team) {
            let v = (load_x(at.base + i) - first) - mean;
            part += v * v;
        }
        squares += part;
    }
    let scale = inverseSqrt(team_sum(squares, lane, p.team) / f32(p.k) + p.eps);
    for (var i = at.member; i < at.k; i += p.team) {
        var y = ((load_x(at.base + i) - first) - mean) * scale;
        if p.weighted != 0u {
            y *= load_weight(i);
        }
        if p.biased != 0u {
            y += load_bias(i);
        }
        store_y(at.base + i, y);
    }
}
