// y = sum(x) or max(x), one team per row.
struct Params {
    x_offset: u32,
    y_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
    // 0 for the sum, 1 for the largest.
    reduction: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

fn sum_of(at: Place) -> f32 {
    var sum = 0.0;
    for (var start = at.member; start < at.k; start += p.team * 16u) {
        var part = 0.0;
        for (var i = start; i < run_end(start, at.k); i += p.team) {
            part += load_x(at.base + i);
        }
        sum += part;
    }
    return sum;
}

fn largest_of(at: Place) -> f32 {
    var largest = 0.0;
    if at.k > 0u {
        largest = load_x(at.base);
    }
    for (var i = at.member; i < at.k; i += p.team) {
        largest = maximum(largest, load_x(at.base + i));
    }
    return largest;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(group, groups, lane);
    var result: f32;
    if p.reduction == 0u {
        result = team_sum(sum_of(at), lane, p.team);
    } else {
        result = team_max(largest_of(at), lane, p.team);
    }
    if at.member == 0u && at.k > 0u {
        store_y(at.row, result);
    }
}
