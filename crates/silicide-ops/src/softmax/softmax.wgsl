// y = softmax(scale · x + mask), one team per row.
struct Params {
    x_offset: u32,
    mask_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
    scale: f32,
    // The number of the launch's first row in the call, and of rows in the mask; 0 without one.
    first: u32,
    mask_rows: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

const LOWEST: f32 = -3.4028234663852886e38;

fn logit(at: Place, i: u32) -> f32 {
    let z = load_x(at.base + i) * p.scale;
    if p.mask_rows == 0u {
        return z;
    }
    return z + load_mask(((p.first + at.row) % p.mask_rows) * p.k + i);
}

// exp(d) for d up to 0, or NaN. Devices may make a small number of exp(-infinity), and lose NaN.
fn weight(d: f32) -> f32 {
    if (bitcast<u32>(d) & 0x7fffffffu) > 0x7f800000u {
        return d;
    }
    return select(exp(max(d, -87.0)), 0.0, d < -87.0);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(group, groups, lane);
    // From the lowest number up, so that a row of -infinity has a finite maximum and its weights are 0.
    var largest = LOWEST;
    for (var i = at.member; i < at.k; i += p.team) {
        largest = maximum(largest, logit(at, i));
    }
    largest = team_max(largest, lane, p.team);
    var sum = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, at.k); i += p.team) {
            part += weight(logit(at, i) - largest);
        }
        sum += part;
    }
    sum = team_sum(sum, lane, p.team);
    // Not `sum != 0`, which is false of NaN too.
    let scale = select(1.0 / sum, 0.0, sum == 0.0);
    for (var i = at.member; i < at.k; i += p.team) {
        store_y(at.base + i, weight(logit(at, i) - largest) * scale);
    }
}
