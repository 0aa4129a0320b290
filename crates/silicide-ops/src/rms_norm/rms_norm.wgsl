// y = v / sqrt(mean(v²) + eps) · weight, one workgroup per row; v is `element`, from plain.wgsl or residual.wgsl.
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
            let v = element(base + i);
            part += v * v;
        }
        squares += part;
    }
    let scale = inverseSqrt(workgroup_sum(squares, lane) / f32(p.k) + p.eps);
    for (var i = lane; i < p.k; i += WG) {
        let v = element(base + i);
        var y = v * scale;
        if p.weighted != 0u {
            y *= load_weight(i);
        }
        keep(base + i, v);
        store_y(base + i, y);
    }
}
