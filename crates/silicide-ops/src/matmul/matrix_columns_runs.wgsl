// Where the first or the second sixteen weights of a step of `$NAME` begin.
fn part_$NAME(half: u32) -> u32 {
    return half * 16u;
}

// What `fill_$NAME` takes of the column that begins at element `first`.
fn column_part_$NAME(first: u32, half: u32) -> u32 {
    return column_$NAME(first);
}

// Fills the cells from `cell` on by sixteen weights in a row of a column at `depth`: for formats that read those at once.
fn fill_$NAME(column: u32, depth: u32, half: u32, cell: u32) {
    let weights = run_$NAME(column, depth, half);
    put_b(cell, weights[0]);
    put_b(cell + 4u, weights[1]);
    put_b(cell + 8u, weights[2]);
    put_b(cell + 12u, weights[3]);
}
