// y[i] = table[indices[i]], row by row, for rows of `row` elements. This launch sees rows first..first + rows of the table.
// `limit` is the number of rows of the whole table, or the first index that is negative as i32. Rows whose index is not
// below `limit` become blank: the launch that sees the first row writes them. The kernel adds `transfer(i, at)`, which moves
// element `at` of the table to element i of y, and `blank(i)`.
fn element(i: u32) {
    let index = get_indices(i / p.row);
    if index >= p.limit {
        if p.first == 0u {
            blank(i);
        }
        return;
    }
    // Wraps to a large number below `first`.
    let seen = index - p.first;
    if seen < p.rows {
        transfer(i, seen * p.row + i % p.row);
    }
}
