// y = sum(x) or max(x), one workgroup per row.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    // 0 for the sum, 1 for the largest.
    reduction: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

fn sum_of(base: u32, lane: u32) -> f32 {
    var sum = 0.0;
    for (var start = lane; start < p.k; start += WG * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, p.k); i += WG) {
            part += load_x(base + i);
        }
        sum += part;
    }
    return sum;
}

fn largest_of(base: u32, lane: u32) -> f32 {
    var largest = load_x(base);
    for (var i = lane; i < p.k; i += WG) {
        largest = maximum(largest, load_x(base + i));
    }
    return largest;
}

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
    var result: f32;
    if p.reduction == 0u {
        result = workgroup_sum(sum_of(row * p.k, lane), lane);
    } else {
        result = workgroup_max(largest_of(row * p.k, lane), lane);
    }
    if lane == 0u {
        store_y(row, result);
    }
}
