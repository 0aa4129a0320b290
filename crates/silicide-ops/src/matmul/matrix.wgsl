enable wgpu_cooperative_matrix;
// y = a · bᵀ for many rows, in 8x8 matrices that subgroups multiply. A workgroup of four subgroups computes a square of 64 x 64
// outputs, each subgroup a quarter: 4 x 4 matrices in its registers. The depth passes through shared memory STEP at a
// time, in cells as those of `tiled_cells.wgsl`, whose elements are single here so that matrices can be read from them.
// What lies outside is zero or not stored.
override WG: u32 = 128;

const SIDE: u32 = 8u;
const QUADS: u32 = 2u;
const STEP: u32 = 32u;
// One cell more than a side of the workgroup's square, so that neighbours in depth lie in different banks.
const PITCH: u32 = 17u;
// The same in elements.
const STRIDE: u32 = 68u;
const SQUARE: u32 = 64u;
const QUARTER: u32 = 32u;
// Outputs of a quarter that pass through shared memory at a time: a row of matrices.
const BAND: u32 = 256u;

// Element [depth][row], or [depth][column].
var<workgroup> a_cells: array<f32, 2176>;
var<workgroup> b_cells: array<f32, 2176>;

alias Left = coop_mat8x8<f32, A>;
alias Right = coop_mat8x8<f32, B>;
alias Sums = coop_mat8x8<f32, C>;

fn set_a(cell: u32, values: vec4<f32>) {
    let at = cell * 4u;
    a_cells[at] = values.x;
    a_cells[at + 1u] = values.y;
    a_cells[at + 2u] = values.z;
    a_cells[at + 3u] = values.w;
}

fn set_b(cell: u32, values: vec4<f32>) {
    let at = cell * 4u;
    b_cells[at] = values.x;
    b_cells[at + 1u] = values.y;
    b_cells[at + 2u] = values.z;
    b_cells[at + 3u] = values.w;
}

// Brings a row of matrices of each quarter to shared memory. What is stored must have a name.
fn put_band(subgroup: u32, m_0: Sums, m_1: Sums, m_2: Sums, m_3: Sums) {
    let first = subgroup * BAND;
    let to_0 = &a_cells[first];
    let to_1 = &a_cells[first + 8u];
    let to_2 = &a_cells[first + 16u];
    let to_3 = &a_cells[first + 24u];
    coopStoreT(m_0, to_0, QUARTER);
    coopStoreT(m_1, to_1, QUARTER);
    coopStoreT(m_2, to_2, QUARTER);
    coopStoreT(m_3, to_3, QUARTER);
}

// Stores row `band` of matrices of each quarter. Call from uniform control flow.
fn store_band(tile: Tile, base: u32, band: u32, lane: u32) {
    workgroupBarrier();
    for (var i = lane; i < 4u * BAND; i += WG) {
        let quarter = i / BAND;
        let row = tile.row + quarter / 2u * QUARTER + band * 8u + i % BAND / QUARTER;
        let column = tile.column + quarter % 2u * QUARTER + i % QUARTER;
        if row < p.rows && column < tile.columns {
            store_y(base + row * p.y_stride + p.y_column + column, a_cells[i]);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let across = (p.columns + SQUARE - 1u) / SQUARE;
    let down = (p.rows + SQUARE - 1u) / SQUARE;
    let number = linear_group(group, groups);
    let batch = number / (across * down);
    // Workgroups past the end have nothing to sum up and no columns: returning early would count as control flow that is
    // not uniform.
    let is_inside = batch < p.batches;
    let k = select(0u, p.k, is_inside);
    let row = (number / across) % down * SQUARE;
    let column = number % across * SQUARE;
    let tile = Tile(batch * p.rows * p.k, batch * p.columns * p.k, row, column, select(0u, p.columns, is_inside));
    let quarter_row = subgroup / 2u * QUARTER;
    let quarter_column = subgroup % 2u * QUARTER;
    for (var i = lane; i < 64u; i += WG) {
        a_cells[i] = 0.0;
    }
    workgroupBarrier();
    let zero = coopLoadT<Sums>(&a_cells[0], 8u);
    var sum_00 = zero;
    var sum_01 = zero;
    var sum_02 = zero;
    var sum_03 = zero;
    var sum_10 = zero;
    var sum_11 = zero;
    var sum_12 = zero;
    var sum_13 = zero;
    var sum_20 = zero;
    var sum_21 = zero;
    var sum_22 = zero;
    var sum_23 = zero;
    var sum_30 = zero;
    var sum_31 = zero;
    var sum_32 = zero;
    var sum_33 = zero;
    workgroupBarrier();
    for (var start = 0u; start < k; start += STEP) {
        fill_a(tile, start, lane);
        fill_b(tile, start, lane);
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth += 8u) {
            let from_a = depth * STRIDE + quarter_row;
            let from_b = depth * STRIDE + quarter_column;
            let a_0 = coopLoad<Left>(&a_cells[from_a], STRIDE);
            let a_1 = coopLoad<Left>(&a_cells[from_a + 8u], STRIDE);
            let a_2 = coopLoad<Left>(&a_cells[from_a + 16u], STRIDE);
            let a_3 = coopLoad<Left>(&a_cells[from_a + 24u], STRIDE);
            let b_0 = coopLoadT<Right>(&b_cells[from_b], STRIDE);
            sum_00 = coopMultiplyAdd(a_0, b_0, sum_00);
            sum_10 = coopMultiplyAdd(a_1, b_0, sum_10);
            sum_20 = coopMultiplyAdd(a_2, b_0, sum_20);
            sum_30 = coopMultiplyAdd(a_3, b_0, sum_30);
            let b_1 = coopLoadT<Right>(&b_cells[from_b + 8u], STRIDE);
            sum_01 = coopMultiplyAdd(a_0, b_1, sum_01);
            sum_11 = coopMultiplyAdd(a_1, b_1, sum_11);
            sum_21 = coopMultiplyAdd(a_2, b_1, sum_21);
            sum_31 = coopMultiplyAdd(a_3, b_1, sum_31);
            let b_2 = coopLoadT<Right>(&b_cells[from_b + 16u], STRIDE);
            sum_02 = coopMultiplyAdd(a_0, b_2, sum_02);
            sum_12 = coopMultiplyAdd(a_1, b_2, sum_12);
            sum_22 = coopMultiplyAdd(a_2, b_2, sum_22);
            sum_32 = coopMultiplyAdd(a_3, b_2, sum_32);
            let b_3 = coopLoadT<Right>(&b_cells[from_b + 24u], STRIDE);
            sum_03 = coopMultiplyAdd(a_0, b_3, sum_03);
            sum_13 = coopMultiplyAdd(a_1, b_3, sum_13);
            sum_23 = coopMultiplyAdd(a_2, b_3, sum_23);
            sum_33 = coopMultiplyAdd(a_3, b_3, sum_33);
        }
        workgroupBarrier();
    }
    let base = batch * p.rows * p.y_stride;
    put_band(subgroup, sum_00, sum_01, sum_02, sum_03);
    store_band(tile, base, 0u, lane);
    put_band(subgroup, sum_10, sum_11, sum_12, sum_13);
    store_band(tile, base, 1u, lane);
    put_band(subgroup, sum_20, sum_21, sum_22, sum_23);
    store_band(tile, base, 2u, lane);
    put_band(subgroup, sum_30, sum_31, sum_32, sum_33);
    store_band(tile, base, 3u, lane);
}
