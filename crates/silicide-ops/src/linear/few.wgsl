// Stores the columns of a row of the product `$NAME`, as far as they are present.
fn keep_few_$NAME(row: u32, column: u32, sums: vec4<f32>) {
    if row >= p.rows {
        return;
    }
    let y = row * p.columns_$NAME + column;
    let present = min(p.columns_$NAME - column, COLUMNS);
    store_y_$NAME(y, biased_$NAME(column, sums.x));
    if present > 1u {
        store_y_$NAME(y + 1u, biased_$NAME(column + 1u, sums.y));
    }
    if present > 2u {
        store_y_$NAME(y + 2u, biased_$NAME(column + 2u, sums.z));
    }
    if present > 3u {
        store_y_$NAME(y + 3u, biased_$NAME(column + 3u, sums.w));
    }
}

// A workgroup's part of the product `$NAME`, for at most 8 rows, as in `matmul/few.wgsl`.
fn product_$NAME(group: u32, lane: u32) {
    let column = (group * (WG / TEAM) + lane / TEAM) * COLUMNS;
    let present = column < p.columns_$NAME;
    let last = vec4<u32>(p.columns_$NAME - 1u);
    let b = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), last) * p.k;
    let sums = sums_$NAME(lane, select(0u, p.k, present), 0u, b);
    if present && lane % TEAM == 0u {
        keep_few_$NAME(0u, column, sums.row_0);
        if ROWS > 1u {
            keep_few_$NAME(1u, column, sums.row_1);
        }
        if ROWS > 2u {
            keep_few_$NAME(2u, column, sums.row_2);
            keep_few_$NAME(3u, column, sums.row_3);
        }
        if ROWS > 4u {
            keep_few_$NAME(4u, column, sums.row_4);
            keep_few_$NAME(5u, column, sums.row_5);
            keep_few_$NAME(6u, column, sums.row_6);
            keep_few_$NAME(7u, column, sums.row_7);
        }
    }
}
