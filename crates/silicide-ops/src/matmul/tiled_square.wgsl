// The outputs of one invocation in a tile over the weights of the binding `$NAME`. Call from uniform control flow.
fn square_$NAME(tile: Tile, lane: u32) -> Square {
    let x = lane % SIDE;
    let y = lane / SIDE;
    let row_starts = starts_a(tile, lane / FOURS % (DOWN * QUADS) * 4u);
    let column_start = start_$NAME(tile, lane % COLUMNS);
    var sums = Square();
    for (var start = 0u; start < p.k; start += STEP) {
        fill_a(tile, row_starts, start, lane);
        fill_$NAME(tile, column_start, start, lane);
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth += 4u) {
            // The mask changes nothing. It bounds `at`, so that compilers make one address and constant offsets of all.
            let at = depth & (STEP - 4u);
            add_depth(&sums, at, x, y);
            add_depth(&sums, at + 1u, x, y);
            add_depth(&sums, at + 2u, x, y);
            add_depth(&sums, at + 3u, x, y);
        }
        workgroupBarrier();
    }
    return sums;
}
