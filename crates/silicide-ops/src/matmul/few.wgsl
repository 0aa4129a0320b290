// y = a · bᵀ for at most 8 rows. Workgroups are cut in teams of TEAM neighbouring invocations, a power of two, with
// four weight columns each. An invocation unpacks sixteen weights of each column into registers, where they meet all
// rows; what it reads of the rows serves four columns. Another part adds up the team's sums and has the entry point.
override WG: u32 = 64;
override TEAM: u32 = 8;
// Rows that are summed: those of the problem, and some that are the last again.
override ROWS: u32 = 1;

const COLUMNS: u32 = 4u;

// Sixteen weights of four columns.
struct Weights {
    first: mat4x4<f32>,
    second: mat4x4<f32>,
    third: mat4x4<f32>,
    fourth: mat4x4<f32>,
}

fn product(weights: mat4x4<f32>, a: mat4x4<f32>) -> f32 {
    let low = dot(weights[0], a[0]) + dot(weights[1], a[1]);
    return low + (dot(weights[2], a[2]) + dot(weights[3], a[3]));
}

// The sixteen elements of a row that meet weights from the same places.
fn activations(at: u32) -> mat4x4<f32> {
    let far = at + SPREAD_b;
    return mat4x4<f32>(
        load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u),
        load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u),
        load_a(far), load_a(far + 1u), load_a(far + 2u), load_a(far + 3u),
        load_a(far + 4u), load_a(far + 5u), load_a(far + 6u), load_a(far + 7u),
    );
}

// Where a row begins; past the last row it is the last one's.
fn row_start(row: u32) -> u32 {
    return min(row, p.rows - 1u) * p.k;
}

fn meet(weights: Weights, a: u32, row: u32) -> vec4<f32> {
    let x = activations(a + row_start(row));
    return vec4<f32>(
        product(weights.first, x), product(weights.second, x),
        product(weights.third, x), product(weights.fourth, x),
    );
}

fn store_row(at: u32, row: u32, present: u32, sums: vec4<f32>) {
    if row >= p.rows {
        return;
    }
    let y = at + row * p.y_stride;
    if present > 0u {
        store_y(y, sums.x);
    }
    if present > 1u {
        store_y(y + 1u, sums.y);
    }
    if present > 2u {
        store_y(y + 2u, sums.z);
    }
    if present > 3u {
        store_y(y + 3u, sums.w);
    }
}

// What the invocation called `lane` of a workgroup does.
fn multiply(group: u32, lane: u32) {
    let across = (p.columns + COLUMNS - 1u) / COLUMNS;
    let number = group * (WG / TEAM) + lane / TEAM;
    // Past the last column a team only keeps the others company.
    let present = number < across * p.batches;
    let k = select(0u, p.k, present);
    let batch = number / across;
    let column = number % across * COLUMNS;
    let a = batch * p.rows * p.k;
    // Past the last column it is the last one's.
    let last = p.columns - 1u;
    let b = (vec4<u32>(batch * p.columns) + min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last))) * p.k;
    // One for each row, of four columns.
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    let eights = SPREAD_b / 8u;
    for (var i = lane % TEAM; i < k / 16u; i += TEAM) {
        let at = i / eights * (SPREAD_b * 2u) + i % eights * 8u;
        let weights = Weights(sixteen_b(b.x + at), sixteen_b(b.y + at), sixteen_b(b.z + at), sixteen_b(b.w + at));
        sum_0 += meet(weights, a + at, 0u);
        if ROWS > 1u {
            sum_1 += meet(weights, a + at, 1u);
        }
        if ROWS > 2u {
            sum_2 += meet(weights, a + at, 2u);
            sum_3 += meet(weights, a + at, 3u);
        }
        if ROWS > 4u {
            sum_4 += meet(weights, a + at, 4u);
            sum_5 += meet(weights, a + at, 5u);
            sum_6 += meet(weights, a + at, 6u);
            sum_7 += meet(weights, a + at, 7u);
        }
    }
    // Depths that are not whole sixteens, which block formats never have.
    for (var i = k / 16u * 16u + lane % TEAM; i < k; i += TEAM) {
        let weights = vec4<f32>(load_b(b.x + i), load_b(b.y + i), load_b(b.z + i), load_b(b.w + i));
        sum_0 += weights * load_a(a + i);
        if ROWS > 1u {
            sum_1 += weights * load_a(a + i + row_start(1u));
        }
        if ROWS > 2u {
            sum_2 += weights * load_a(a + i + row_start(2u));
            sum_3 += weights * load_a(a + i + row_start(3u));
        }
        if ROWS > 4u {
            sum_4 += weights * load_a(a + i + row_start(4u));
            sum_5 += weights * load_a(a + i + row_start(5u));
            sum_6 += weights * load_a(a + i + row_start(6u));
            sum_7 += weights * load_a(a + i + row_start(7u));
        }
    }
    sum_0 = team_sums(sum_0, lane);
    if ROWS > 1u {
        sum_1 = team_sums(sum_1, lane);
    }
    if ROWS > 2u {
        sum_2 = team_sums(sum_2, lane);
        sum_3 = team_sums(sum_3, lane);
    }
    if ROWS > 4u {
        sum_4 = team_sums(sum_4, lane);
        sum_5 = team_sums(sum_5, lane);
        sum_6 = team_sums(sum_6, lane);
        sum_7 = team_sums(sum_7, lane);
    }
    if present && lane % TEAM == 0u {
        let y = batch * p.rows * p.y_stride + p.y_column + column;
        let columns = p.columns - column;
        store_row(y, 0u, columns, sum_0);
        if ROWS > 1u {
            store_row(y, 1u, columns, sum_1);
        }
        if ROWS > 2u {
            store_row(y, 2u, columns, sum_2);
            store_row(y, 3u, columns, sum_3);
        }
        if ROWS > 4u {
            store_row(y, 4u, columns, sum_4);
            store_row(y, 5u, columns, sum_5);
            store_row(y, 6u, columns, sum_6);
            store_row(y, 7u, columns, sum_7);
        }
    }
}
