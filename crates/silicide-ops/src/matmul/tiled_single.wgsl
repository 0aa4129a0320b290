// Cells by single elements, for depths of any length.
fn a_element(base: u32, row: u32, i: u32) -> f32 {
    if row < p.rows && i < p.k {
        return load_a(base + row * p.k + i);
    }
    return 0.0;
}

fn fill_a(tile: Tile, start: u32, lane: u32) {
    for (var cell = lane; cell < SIDE * QUADS * STEP; cell += WG) {
        let depth = cell % STEP;
        let quad = cell / STEP;
        let i = start + depth;
        let r = tile.row + quad * 4u;
        set_a(depth * PITCH + quad, vec4<f32>(
            a_element(tile.a, r, i), a_element(tile.a, r + 1u, i), a_element(tile.a, r + 2u, i), a_element(tile.a, r + 3u, i),
        ));
    }
}
