// Where the first or the second sixteen weights of a step of `$NAME` begin. A step is two sixteens of SPREAD 8, or one run of
// two of SPREAD 16; of longer runs, weights are read by eight.
fn part_$NAME(half: u32) -> u32 {
    return half * select(16u, 8u, SPREAD_$NAME == 16u);
}

// What `fill_$NAME` takes of the column that begins at element `first`.
fn column_part_$NAME(first: u32, half: u32) -> u32 {
    return first + part_$NAME(half);
}

// Fills the cells from `cell` on by sixteen weights of a column at `depth`: for depths of whole steps.
fn fill_$NAME(column: u32, depth: u32, half: u32, cell: u32) {
    let at = column + depth;
    if SPREAD_$NAME <= 16u {
        let weights = sixteen_$NAME(at);
        put_b(cell, weights[0]);
        put_b(cell + 4u, weights[1]);
        put_b(cell + SPREAD_$NAME, weights[2]);
        put_b(cell + SPREAD_$NAME + 4u, weights[3]);
    } else {
        let low = eight_$NAME(at);
        let high = eight_$NAME(at + 8u);
        put_b(cell, low[0]);
        put_b(cell + 4u, low[1]);
        put_b(cell + 8u, high[0]);
        put_b(cell + 12u, high[1]);
    }
}
