// Adds the bias to the columns of a row of the product `$NAME` that are present, `most` at most, and stores them.
fn keep_columns_$NAME(row: u32, column: u32, most: u32, sums: vec4<f32>) {
    if row >= p.rows {
        return;
    }
    let y = row * p.columns_$NAME + column;
    let present = min(p.columns_$NAME - min(column, p.columns_$NAME), most);
    if present > 0u {
        store_y_$NAME(y, biased_$NAME(column, sums.x));
    }
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

// Four columns.
fn keep_$NAME(row: u32, column: u32, sums: vec4<f32>) {
    keep_columns_$NAME(row, column, 4u, sums);
}
