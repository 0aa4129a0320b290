// Fills the cells of the activations by single elements: for depths of any length. Past the end of the depth they are zero.
fn element_a(row: u32, i: u32) -> f32 {
    if i < p.k {
        return load_a(row + i);
    }
    return 0.0;
}

fn fill_a(tile: Tile, starts: vec4<u32>, start: u32, lane: u32) {
    for (var item = lane; item < DOWN * QUADS * STEP; item += WG) {
        let depth = item % STEP;
        let quad = item / STEP;
        let i = start + depth;
        let rows = starts_a(tile, quad * 4u);
        a_cells[depth * A_PITCH + quad] =
            vec4<f32>(element_a(rows.x, i), element_a(rows.y, i), element_a(rows.z, i), element_a(rows.w, i));
    }
}
