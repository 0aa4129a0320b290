// y = (x - mean) / sqrt(variance + eps) · weight + bias, one workgroup per row.
struct Params {
    x_offset: u32,
    weight_offset: u32,
    bias_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    eps: f32,
    weighted: u32,
    biased: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;
// The row's first element, kept out of reach of the writes to `y`, which may be `x`.
var<workgroup> first: f32;

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
    if lane == 0u {
        first = load_x(base);
    }
    workgroupBarrier();
    // Sums are taken about the first element, so that an offset common to the row does not drown its spread. It is
    // kept apart from the rest of the mean for the same reason.
    var sum = 0.0;
    for (var start = lane; start < p.k; start += WG * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, p.k); i += WG) {
            part += load_x(base + i) - first;
        }
        sum += part;
    }
    let mean = workgroup_sum(sum, lane) / f32(p.k);
    var squares = 0.0;
    for (var start = lane; start < p.k; start += WG * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, p.k); i += WG) {
            let v = (load_x(base + i) - first) - mean;
            part += v * v;
        }
        squares += part;
    }
    let scale = inverseSqrt(workgroup_sum(squares, lane) / f32(p.k) + p.eps);
    for (var i = lane; i < p.k; i += WG) {
        var y = ((load_x(base + i) - first) - mean) * scale;
        if p.weighted != 0u {
            y *= load_weight(i);
        }
        if p.biased != 0u {
            y += load_bias(i);
        }
        store_y(base + i, y);
    }
}
