// A workgroup's part of the product `$NAME`, for any number of rows, as in `matmul/tiled.wgsl`.
fn product_$NAME(group: u32, lane: u32) {
    let width = SIDE * QUADS * 4u;
    let across = (p.columns_$NAME + width - 1u) / width;
    let row = group / across * (DOWN * QUADS * 4u);
    let column = group % across * width;
    if row < p.rows {
        let square = square_$NAME(Tile(0u, 0u, 0u, row, column, p.columns_$NAME), lane);
        let r = row + lane / SIDE * 4u;
        let c = column + lane % SIDE * 4u;
        keep_$NAME(r, c, square.sum_0);
        keep_$NAME(r + 1u, c, square.sum_1);
        keep_$NAME(r + 2u, c, square.sum_2);
        keep_$NAME(r + 3u, c, square.sum_3);
        if QUADS > 1u {
            let far_r = r + DOWN * 4u;
            let far_c = c + SIDE * 4u;
            keep_$NAME(far_r, c, square.sum_4);
            keep_$NAME(far_r + 1u, c, square.sum_5);
            keep_$NAME(far_r + 2u, c, square.sum_6);
            keep_$NAME(far_r + 3u, c, square.sum_7);
            keep_$NAME(r, far_c, square.far_0);
            keep_$NAME(r + 1u, far_c, square.far_1);
            keep_$NAME(r + 2u, far_c, square.far_2);
            keep_$NAME(r + 3u, far_c, square.far_3);
            keep_$NAME(far_r, far_c, square.far_4);
            keep_$NAME(far_r + 1u, far_c, square.far_5);
            keep_$NAME(far_r + 2u, far_c, square.far_6);
            keep_$NAME(far_r + 3u, far_c, square.far_7);
        }
    }
}
