// The largest and the sum over a workgroup, whatever its subgroups: of eight invocations by each of eight, then of those by all.
var<workgroup> of_lanes: array<Rows, WG>;
var<workgroup> of_eights: array<Rows, 8>;

fn largest_of(score: Rows, lane: u32) -> Rows {
    of_lanes[lane] = score;
    workgroupBarrier();
    if lane < 8u {
        var largest = of_lanes[lane * 8u];
        for (var i = 1u; i < 8u; i++) {
            largest = max(largest, of_lanes[lane * 8u + i]);
        }
        of_eights[lane] = largest;
    }
    workgroupBarrier();
    var largest = of_eights[0];
    for (var i = 1u; i < 8u; i++) {
        largest = max(largest, of_eights[i]);
    }
    return largest;
}

fn sum_of(value: Rows, lane: u32) -> Rows {
    of_lanes[lane] = value;
    workgroupBarrier();
    if lane < 8u {
        var sum = of_lanes[lane * 8u];
        for (var i = 1u; i < 8u; i++) {
            sum += of_lanes[lane * 8u + i];
        }
        of_eights[lane] = sum;
    }
    workgroupBarrier();
    var sum = of_eights[0];
    for (var i = 1u; i < 8u; i++) {
        sum += of_eights[i];
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    attend(work_of(group, groups), lane);
}
