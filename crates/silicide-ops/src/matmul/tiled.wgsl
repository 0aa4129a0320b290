// GEMM, y = a · bᵀ for any number of rows: a workgroup computes one tile of y by `tiled_square.wgsl`.
fn store_row(base: u32, row: u32, column: u32, values: vec4<f32>) {
    if row >= p.rows {
        return;
    }
    let at = base + row * p.y_stride + p.y_column + column;
    for (var i = 0u; i < 4u && column + i < p.columns; i++) {
        store_y(at + i, values[i]);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let width = SIDE * QUADS * 4u;
    let height = DOWN * QUADS * 4u;
    let across = (p.columns + width - 1u) / width;
    let down = (p.rows + height - 1u) / height;
    let number = linear_group(group, groups);
    let batch = number / (across * down);
    if batch >= p.batches {
        return;
    }
    let row = (number / across) % down * height;
    let column = number % across * width;
    let tile = Tile(batch * p.rows * p.k, batch * p.columns * p.k, batch * p.rows * p.y_stride, row, column, p.columns);
    let square = square_b(tile, lane);
    let base = tile.y;
    let r = row + lane / SIDE * 4u;
    let c = column + lane % SIDE * 4u;
    store_row(base, r, c, square.sum_0);
    store_row(base, r + 1u, c, square.sum_1);
    store_row(base, r + 2u, c, square.sum_2);
    store_row(base, r + 3u, c, square.sum_3);
    if QUADS > 1u {
        let far_r = r + DOWN * 4u;
        let far_c = c + SIDE * 4u;
        store_row(base, far_r, c, square.sum_4);
        store_row(base, far_r + 1u, c, square.sum_5);
        store_row(base, far_r + 2u, c, square.sum_6);
        store_row(base, far_r + 3u, c, square.sum_7);
        store_row(base, r, far_c, square.far_0);
        store_row(base, r + 1u, far_c, square.far_1);
        store_row(base, r + 2u, far_c, square.far_2);
        store_row(base, r + 3u, far_c, square.far_3);
        store_row(base, far_r, far_c, square.far_4);
        store_row(base, far_r + 1u, far_c, square.far_5);
        store_row(base, far_r + 2u, far_c, square.far_6);
        store_row(base, far_r + 3u, far_c, square.far_7);
    }
}
