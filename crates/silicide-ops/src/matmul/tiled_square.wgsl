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
            // The mask changes nothing. It bounds both addresses, so that compilers add constant offsets to them.
            let at = depth & (STEP - 4u);
            let a = at * A_PITCH + y;
            let b = at * B_PITCH + x * 4u;
            add_depth(&sums, a, b);
            add_depth(&sums, a + A_PITCH, b + B_PITCH);
            add_depth(&sums, a + 2u * A_PITCH, b + 2u * B_PITCH);
            add_depth(&sums, a + 3u * A_PITCH, b + 3u * B_PITCH);
        }
        workgroupBarrier();
    }
    return sums;
}
