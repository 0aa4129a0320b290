// y = v / sqrt(mean(v²) + eps) · weight, one team per row; v is `element`, from plain.wgsl or residual.wgsl.
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
            let v = element(at.base + i);
            part += v * v;
        }
        squares += part;
    }
    let scale = inverseSqrt(team_sum(squares, lane, p.team) / f32(p.k) + p.eps);
    for (var i = at.member; i < at.k; i += p.team) {
        let v = element(at.base + i);
        var y = v * scale;
        if p.weighted != 0u {
            y *= load_weight(i);
        }
        keep(at.base + i, v);
        store_y(at.base + i, y);
    }
}
