// y = a · bᵀ for any number of rows. A workgroup of 8 x 8 invocations computes a square of outputs, 4 x 4 or 8 x 8 in
// the registers of each; the depth passes through shared memory STEP at a time. What lies outside is zero or not stored.
// Another part, `fill`, says how many elements are read at a time.
override WG: u32 = 64;
// Cells along a side of an invocation's square, 1 or 2.
override QUADS: u32 = 1;
// One cell more than a side of the workgroup's square, so that neighbours in depth lie in different banks.
override PITCH: u32 = 9;
override CELLS: u32 = 144;

const SIDE: u32 = 8u;
const STEP: u32 = 16u;

// Cell [depth][quad]: four rows, or four columns, at one depth. The second square of an invocation lies SIDE quads on.
var<workgroup> a_cells: array<vec4<f32>, CELLS>;
var<workgroup> b_cells: array<vec4<f32>, CELLS>;

// Where the factors begin, and the first row and column of a square.
struct Tile {
    a: u32,
    b: u32,
    row: u32,
    column: u32,
}

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
    let size = SIDE * QUADS * 4u;
    let across = (p.columns + size - 1u) / size;
    let down = (p.rows + size - 1u) / size;
    let number = linear_group(group, groups);
    let batch = number / (across * down);
    if batch >= p.batches {
        return;
    }
    let row = (number / across) % down * size;
    let column = number % across * size;
    let tile = Tile(batch * p.rows * p.k, batch * p.columns * p.k, row, column);
    let x = lane % SIDE;
    let y = lane / SIDE;
    // One for each row: of the first four columns, and of the second four.
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
        fill(tile, start, lane);
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
    let base = batch * p.rows * p.y_stride;
    let r = row + y * 4u;
    let c = column + x * 4u;
    store_row(base, r, c, sum_0);
    store_row(base, r + 1u, c, sum_1);
    store_row(base, r + 2u, c, sum_2);
    store_row(base, r + 3u, c, sum_3);
    if QUADS > 1u {
        let far_r = r + SIDE * 4u;
        let far_c = c + SIDE * 4u;
        store_row(base, far_r, c, sum_4);
        store_row(base, far_r + 1u, c, sum_5);
        store_row(base, far_r + 2u, c, sum_6);
        store_row(base, far_r + 3u, c, sum_7);
        store_row(base, r, far_c, far_0);
        store_row(base, r + 1u, far_c, far_1);
        store_row(base, r + 2u, far_c, far_2);
        store_row(base, r + 3u, far_c, far_3);
        store_row(base, far_r, far_c, far_4);
        store_row(base, far_r + 1u, far_c, far_5);
        store_row(base, far_r + 2u, far_c, far_6);
        store_row(base, far_r + 3u, far_c, far_7);
    }
}
