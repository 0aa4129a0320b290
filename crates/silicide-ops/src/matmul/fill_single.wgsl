// Fills the cells of `$NAME` by single elements: for depths of any length. Past the end of the depth they are zero.
fn element_$NAME(row: u32, i: u32) -> f32 {
    if i < p.k {
        return load_$NAME(row + i);
    }
    return 0.0;
}

fn fill_$NAME(tile: Tile, start: u32, lane: u32) {
    for (var item = lane_$NAME(lane); item < SIDE * QUADS * STEP; item += WG) {
        let depth = item % STEP;
        let quad = item / STEP;
        let i = start + depth;
        let rows = starts_$NAME(tile, quad * 4u);
        set_cell_$NAME(depth * PITCH + quad, vec4<f32>(
            element_$NAME(rows.x, i), element_$NAME(rows.y, i), element_$NAME(rows.z, i), element_$NAME(rows.w, i),
        ));
    }
}
