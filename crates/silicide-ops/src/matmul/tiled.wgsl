// y = a · bᵀ for any number of rows. A workgroup of SIDE x SIDE invocations computes a square of outputs, 4 x 4 in the
// registers of each; the depth passes through shared memory STEP at a time. What lies outside is zero and not stored.
override WG: u32 = 64;
override SIDE: u32 = 8;
// One cell more than SIDE, so that neighbours in depth lie in different banks.
override PITCH: u32 = 9;
override CELLS: u32 = 144;

const STEP: u32 = 16u;

// Cell [depth][quad]: four rows, or four columns, at one depth.
var<workgroup> a_cells: array<vec4<f32>, CELLS>;
var<workgroup> b_cells: array<vec4<f32>, CELLS>;

fn a_element(base: u32, row: u32, i: u32) -> f32 {
    if row < p.rows && i < p.k {
        return load_a(base + row * p.k + i);
    }
    return 0.0;
}

fn b_element(base: u32, column: u32, i: u32) -> f32 {
    if column < p.columns && i < p.k {
        return load_b(base + column * p.k + i);
    }
    return 0.0;
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
    let tile = SIDE * 4u;
    let across = (p.columns + tile - 1u) / tile;
    let down = (p.rows + tile - 1u) / tile;
    let number = linear_group(group, groups);
    let batch = number / (across * down);
    if batch >= p.batches {
        return;
    }
    let row = (number / across) % down * tile;
    let column = number % across * tile;
    let a = batch * p.rows * p.k;
    let b = batch * p.columns * p.k;
    let x = lane % SIDE;
    let y = lane / SIDE;
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    for (var start = 0u; start < p.k; start += STEP) {
        for (var cell = lane; cell < SIDE * STEP; cell += WG) {
            let depth = cell % STEP;
            let quad = cell / STEP;
            let i = start + depth;
            let r = row + quad * 4u;
            let c = column + quad * 4u;
            a_cells[depth * PITCH + quad] = vec4<f32>(
                a_element(a, r, i), a_element(a, r + 1u, i), a_element(a, r + 2u, i), a_element(a, r + 3u, i),
            );
            b_cells[depth * PITCH + quad] = vec4<f32>(
                b_element(b, c, i), b_element(b, c + 1u, i), b_element(b, c + 2u, i), b_element(b, c + 3u, i),
            );
        }
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth++) {
            let rows = a_cells[depth * PITCH + y];
            let columns = b_cells[depth * PITCH + x];
            sum_0 += rows.x * columns;
            sum_1 += rows.y * columns;
            sum_2 += rows.z * columns;
            sum_3 += rows.w * columns;
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
}
