// A workgroup's part of the product `$NAME` in matrices, for any number of rows, as in `matmul/matrix.wgsl`.
fn keep_four_$NAME(tile: Tile, place: vec2<u32>, sums: vec4<f32>) {
    keep_$NAME(tile.row + place.x, tile.column + place.y, sums);
}

fn product_$NAME(group: u32, lane: u32) {
    let across = (p.columns_$NAME + TILE - 1u) / TILE;
    let row = group / across * TILE;
    let tile = Tile(0u, 0u, 0u, row, group % across * TILE, p.columns_$NAME);
    multiply_$NAME(tile, select(0u, p.k, row < p.rows), lane);
}
