// Row `indices[i / row]` of a table, of which this launch sees rows first..first + rows. `limit` is the number of
// rows of the whole table, or what an index may not reach: a negative index is above it. The launch that sees the
// first row also blanks rows that are out of range.
struct Params {
    table_offset: u32,
    indices_offset: u32,
    y_offset: u32,
    count: u32,
    row: u32,
    first: u32,
    rows: u32,
    limit: u32,
    blank_low: u32,
    blank_high: u32,
}
var<immediate> p: Params;

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
