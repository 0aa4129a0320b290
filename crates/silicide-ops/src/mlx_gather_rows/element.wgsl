// Row `indices[i / row]` of a table, of which this launch sees rows first..first + rows; as in `gather_rows`.
fn element(i: u32) {
    let index = get_indices(i / p.row);
    if index >= p.limit {
        if p.first == 0u {
            put_y(i, p.blank);
        }
        return;
    }
    // Wraps to a large number below `first`.
    let seen = index - p.first;
    if seen < p.rows {
        store_y(i, load_b(seen * p.row + i % p.row));
    }
}
