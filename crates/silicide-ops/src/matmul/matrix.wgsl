// GEMM in matrices, y = a · bᵀ for any number of rows: a workgroup computes one tile of y by `matrix_square.wgsl`.
fn keep_four_b(tile: Tile, place: vec2<u32>, sums: vec4<f32>) {
    let row = tile.row + place.x;
    let column = tile.column + place.y;
    let at = tile.y + row * p.y_stride + p.y_column + column;
    for (var i = 0u; i < 4u && column + i < tile.columns && row < p.rows; i++) {
        store_y(at + i, sums[i]);
    }
}

// The work of invocation `lane` of workgroup `group`.
fn multiply(group: u32, lane: u32) {
    let across = (p.columns + TILE - 1u) / TILE;
    let down = (p.rows + TILE - 1u) / TILE;
    let batch = group / (across * down);
    // Workgroups past the end have nothing to sum up and no columns: returning early would count as control flow that is
    // not uniform.
    let is_inside = batch < p.batches;
    let row = (group / across) % down * TILE;
    let column = group % across * TILE;
    let columns = select(0u, p.columns, is_inside);
    let tile = Tile(batch * p.rows * p.k, batch * p.columns * p.k, batch * p.rows * p.y_stride, row, column, columns);
    multiply_b(tile, select(0u, p.k, is_inside), lane);
}
