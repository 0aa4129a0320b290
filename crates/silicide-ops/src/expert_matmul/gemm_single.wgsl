// Cells by single elements, for depths of any length.
fn a_element(row: u32, i: u32) -> f32 {
    if i < p.k {
        return load_x(starts[row] + i);
    }
    return 0.0;
}

fn b_element(base: u32, column: u32, i: u32) -> f32 {
    if column < p.columns && i < p.k {
        return load_b(base + column * p.k + i);
    }
    return 0.0;
}

fn fill(square: Square, start: u32, lane: u32) {
    for (var cell = lane; cell < SIDE * STEP; cell += WG) {
        let depth = cell % STEP;
        let quad = cell / STEP;
        let i = start + depth;
        let r = quad * 4u;
        let c = square.column + r;
        a_cells[depth * PITCH + quad] =
            vec4<f32>(a_element(r, i), a_element(r + 1u, i), a_element(r + 2u, i), a_element(r + 3u, i));
        b_cells[depth * PITCH + quad] = vec4<f32>(
            b_element(square.b, c, i), b_element(square.b, c + 1u, i),
            b_element(square.b, c + 2u, i), b_element(square.b, c + 3u, i),
        );
    }
}
