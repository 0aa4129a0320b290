// What fills need of the activations `$NAME`: four rows from row `first` of the tile. Rows past the last are the last again;
// their outputs are not stored.
fn starts_$NAME(tile: Tile, first: u32) -> vec4<u32> {
    let rows = min(vec4<u32>(tile.row + first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.rows - 1u));
    return vec4<u32>(tile.a) + rows * p.k;
}

fn lane_$NAME(lane: u32) -> u32 {
    return lane;
}

fn set_cell_$NAME(cell: u32, values: vec4<f32>) {
    set_a(cell, values);
}
