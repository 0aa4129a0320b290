// What fills need of the weights `$NAME`: four columns from column `first` of the tile. Columns past the last are the last
// again; their outputs are not stored.
fn starts_$NAME(tile: Tile, first: u32) -> vec4<u32> {
    let columns = min(vec4<u32>(tile.column + first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(tile.columns - 1u));
    return vec4<u32>(tile.b) + columns * p.k;
}

// Invocations that had no part in the activations come first.
fn lane_$NAME(lane: u32) -> u32 {
    return (lane + WG / 2u) % WG;
}

fn set_cell_$NAME(cell: u32, values: vec4<f32>) {
    set_b(cell, values);
}
