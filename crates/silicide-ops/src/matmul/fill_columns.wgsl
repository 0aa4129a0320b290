// Where a weight row of `$NAME` begins: that of column `column` of the tile. Columns past the last are the last again; their
// outputs are not stored.
fn start_$NAME(tile: Tile, column: u32) -> u32 {
    return tile.b + min(tile.column + column, tile.columns - 1u) * p.k;
}
