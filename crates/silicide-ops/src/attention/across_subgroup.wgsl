// The largest and the sum over a workgroup of whole subgroups of the size that the kernel requires.
override SUBGROUP: u32 = 32;
var<workgroup> of_subgroups: array<Rows, WG / SUBGROUP>;

fn largest_of(score: Rows, lane: u32) -> Rows {
    var largest = subgroupMax(score);
    if SUBGROUP < WG {
        if lane % SUBGROUP == 0u {
            of_subgroups[lane / SUBGROUP] = largest;
        }
        workgroupBarrier();
        for (var i = 0u; i < WG / SUBGROUP; i++) {
            largest = max(largest, of_subgroups[i]);
        }
    }
    return largest;
}

fn sum_of(value: Rows, lane: u32) -> Rows {
    var sum = subgroupAdd(value);
    if SUBGROUP < WG {
        if lane % SUBGROUP == 0u {
            of_subgroups[lane / SUBGROUP] = sum;
        }
        workgroupBarrier();
        sum = of_subgroups[0];
        for (var i = 1u; i < WG / SUBGROUP; i++) {
            sum += of_subgroups[i];
        }
    }
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) invocation: u32,
) {
    attend(work_of(group, groups), subgroup * SUBGROUP + invocation);
}
