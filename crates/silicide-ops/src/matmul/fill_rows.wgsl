// Where a row of the activations begins: row `row` of the tile. Rows past the last are the last again; their outputs are not
// stored.
fn start_a(tile: Tile, row: u32) -> u32 {
    return tile.a + min(tile.row + row, p.rows - 1u) * p.k;
}
