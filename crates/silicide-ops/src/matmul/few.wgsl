// GEMV, y = a · bᵀ for at most 8 rows of a: a team has COLUMNS columns of y, which are rows of the weights b, summed by
// `few_sums.wgsl` or `few_codes.wgsl`.

// Stores the columns of a row, as far as they are present.
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

// The work of invocation `lane` of a workgroup.
fn multiply(group: u32, lane: u32) {
    let across = (p.columns + COLUMNS - 1u) / COLUMNS;
    let number = group * (WG / TEAM) + lane / TEAM;
    // Teams past the last column sum over no depth: they only take part in barriers.
    let present = number < across * p.batches;
    let k = select(0u, p.k, present);
    let batch = number / across;
    let column = number % across * COLUMNS;
    let a = batch * p.rows * p.k;
    // Columns past the last are the last again.
    let last = p.columns - 1u;
    let b = (vec4<u32>(batch * p.columns) + min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last))) * p.k;
    let sums = sums_b(lane, k, a, b);
    if present && lane % TEAM == 0u {
        let y = batch * p.rows * p.y_stride + p.y_column + column;
        let columns = min(p.columns - column, COLUMNS);
        store_row(y, 0u, columns, sums.row_0);
        if ROWS > 1u {
            store_row(y, 1u, columns, sums.row_1);
        }
        if ROWS > 2u {
            store_row(y, 2u, columns, sums.row_2);
            store_row(y, 3u, columns, sums.row_3);
        }
        if ROWS > 4u {
            store_row(y, 4u, columns, sums.row_4);
            store_row(y, 5u, columns, sums.row_5);
            store_row(y, 6u, columns, sums.row_6);
            store_row(y, 7u, columns, sums.row_7);
        }
    }
}
