// y = a · bᵀ for at most 8 rows. Workgroups are cut in teams of `p.team` neighbouring invocations, a power of two, with
// one weight column each: the column is read once, side by side, and meets all rows. Another part says how many weights
// are read at a time, RUN, and how they meet the rows, `add_products`.
override WG: u32 = 256;

// Of the first four rows and of the others.
struct Sums {
    low: vec4<f32>,
    high: vec4<f32>,
}

var<workgroup> cells: array<vec4<f32>, WG>;

// The sum over a team, in a fixed tree; for its first invocation. Call from uniform control flow.
fn team_sums(value: vec4<f32>, lane: u32) -> vec4<f32> {
    workgroupBarrier();
    cells[lane] = value;
    workgroupBarrier();
    for (var width = p.team / 2u; width > 0u; width = width / 2u) {
        if lane % p.team < width {
            cells[lane] = cells[lane] + cells[lane + width];
        }
        workgroupBarrier();
    }
    return cells[lane];
}

fn store_rows(at: u32, row: u32, sums: vec4<f32>) {
    for (var i = 0u; i < 4u && row + i < p.rows; i++) {
        store_y(at + (row + i) * p.y_stride, sums[i]);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = linear_group(group, groups) * (WG / p.team) + lane / p.team;
    // Past the last column a team only keeps the barriers company.
    let present = number < p.columns * p.batches;
    let k = select(0u, p.k, present);
    let batch = number / p.columns;
    let column = number % p.columns;
    let a = batch * p.rows * p.k;
    let b = number * p.k;
    var sums = Sums(vec4<f32>(), vec4<f32>());
    for (var i = lane % p.team; i < k / RUN; i += p.team) {
        sums = add_products(sums, a + i * RUN, b + i * RUN);
    }
    sums.low = team_sums(sums.low, lane);
    if p.rows > 4u {
        sums.high = team_sums(sums.high, lane);
    }
    if present && lane % p.team == 0u {
        let at = batch * p.rows * p.y_stride + p.y_column + column;
        store_rows(at, 0u, sums.low);
        store_rows(at, 4u, sums.high);
    }
}
