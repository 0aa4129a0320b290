// The outputs of one invocation in a square over the weights of the binding `$NAME`. Call from uniform control flow.
fn square_$NAME(tile: Tile, lane: u32) -> Square {
    let x = lane % SIDE;
    let y = lane / SIDE;
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    var far_0 = vec4<f32>();
    var far_1 = vec4<f32>();
    var far_2 = vec4<f32>();
    var far_3 = vec4<f32>();
    var far_4 = vec4<f32>();
    var far_5 = vec4<f32>();
    var far_6 = vec4<f32>();
    var far_7 = vec4<f32>();
    for (var start = 0u; start < p.k; start += STEP) {
        fill_a(tile, start, lane);
        fill_$NAME(tile, start, lane);
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth++) {
            let rows = a_cells[depth * PITCH + y];
            let columns = b_cells[depth * PITCH + x];
            sum_0 += rows.x * columns;
            sum_1 += rows.y * columns;
            sum_2 += rows.z * columns;
            sum_3 += rows.w * columns;
            if QUADS > 1u {
                let far_rows = a_cells[depth * PITCH + SIDE + y];
                let far_columns = b_cells[depth * PITCH + SIDE + x];
                sum_4 += far_rows.x * columns;
                sum_5 += far_rows.y * columns;
                sum_6 += far_rows.z * columns;
                sum_7 += far_rows.w * columns;
                far_0 += rows.x * far_columns;
                far_1 += rows.y * far_columns;
                far_2 += rows.z * far_columns;
                far_3 += rows.w * far_columns;
                far_4 += far_rows.x * far_columns;
                far_5 += far_rows.y * far_columns;
                far_6 += far_rows.z * far_columns;
                far_7 += far_rows.w * far_columns;
            }
        }
        workgroupBarrier();
    }
    return Square(
        sum_0, sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7,
        far_0, far_1, far_2, far_3, far_4, far_5, far_6, far_7,
    );
}
