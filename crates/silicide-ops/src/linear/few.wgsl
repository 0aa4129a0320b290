// A workgroup's part of the product `$NAME`, for at most 8 rows, as in `matmul/few.wgsl`.
fn product_$NAME(group: u32, lane: u32) {
    let column = (group * (WG / TEAM) + lane / TEAM) * COLUMNS;
    let present = column < p.columns_$NAME;
    let last = vec4<u32>(p.columns_$NAME - 1u);
    let b = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), last) * p.k;
    let sums = sums_$NAME(lane, select(0u, p.k, present), 0u, b);
    if present && lane % TEAM == 0u {
        keep_columns_$NAME(0u, column, COLUMNS, sums.row_0);
        if ROWS > 1u {
            keep_columns_$NAME(1u, column, COLUMNS, sums.row_1);
        }
        if ROWS > 2u {
            keep_columns_$NAME(2u, column, COLUMNS, sums.row_2);
            keep_columns_$NAME(3u, column, COLUMNS, sums.row_3);
        }
        if ROWS > 4u {
            keep_columns_$NAME(4u, column, COLUMNS, sums.row_4);
            keep_columns_$NAME(5u, column, COLUMNS, sums.row_5);
            keep_columns_$NAME(6u, column, COLUMNS, sums.row_6);
            keep_columns_$NAME(7u, column, COLUMNS, sums.row_7);
        }
    }
}
