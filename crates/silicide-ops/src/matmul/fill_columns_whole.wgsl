// Fills the cells of the weights `$NAME` by eight elements of a column: for depths of whole steps. Neighbouring invocations
// have neighbouring columns, so that they store in different banks. `first` is where the column of the invocation begins.
fn fill_eight_$NAME(first: u32, start: u32, item: u32) {
    let depth = item / COLUMNS * 8u;
    let eight = eight_$NAME(first + start + depth);
    let cell = depth * B_PITCH + item % COLUMNS;
    b_cells[cell] = eight[0].x;
    b_cells[cell + B_PITCH] = eight[0].y;
    b_cells[cell + 2u * B_PITCH] = eight[0].z;
    b_cells[cell + 3u * B_PITCH] = eight[0].w;
    b_cells[cell + 4u * B_PITCH] = eight[1].x;
    b_cells[cell + 5u * B_PITCH] = eight[1].y;
    b_cells[cell + 6u * B_PITCH] = eight[1].z;
    b_cells[cell + 7u * B_PITCH] = eight[1].w;
}

fn fill_$NAME(tile: Tile, first: u32, start: u32, lane: u32) {
    fill_eight_$NAME(first, start, lane);
    // A workgroup has as many invocations as half of the items, or all. COLUMNS divides it, so columns are the same.
    if WG < COLUMNS * (STEP / 8u) {
        fill_eight_$NAME(first, start, lane + WG);
    }
}
