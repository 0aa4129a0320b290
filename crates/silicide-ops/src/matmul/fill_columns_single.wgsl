// Fills the cells of the weights `$NAME` by single elements: for depths of any length. Past the end of the depth they are
// zero.
fn fill_$NAME(tile: Tile, first: u32, start: u32, lane: u32) {
    for (var item = lane; item < COLUMNS * STEP; item += WG) {
        let depth = item % STEP;
        let column = item / STEP;
        var weight = 0.0;
        if start + depth < p.k {
            weight = load_$NAME(start_$NAME(tile, column) + start + depth);
        }
        b_cells[depth * B_PITCH + column] = weight;
    }
}
