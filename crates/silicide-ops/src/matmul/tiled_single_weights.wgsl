// Cells of the weights of one binding, by single elements.
fn element_$NAME(tile: Tile, column: u32, i: u32) -> f32 {
    if column < tile.columns && i < p.k {
        return load_$NAME(tile.b + column * p.k + i);
    }
    return 0.0;
}

fn fill_$NAME(tile: Tile, start: u32, lane: u32) {
    for (var cell = lane; cell < SIDE * QUADS * STEP; cell += WG) {
        let depth = cell % STEP;
        let quad = cell / STEP;
        let i = start + depth;
        let c = tile.column + quad * 4u;
        set_b(depth * PITCH + quad, vec4<f32>(
            element_$NAME(tile, c, i), element_$NAME(tile, c + 1u, i),
            element_$NAME(tile, c + 2u, i), element_$NAME(tile, c + 3u, i),
        ));
    }
}
