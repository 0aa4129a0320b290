// Shared by GEMM kernels, for any number of rows:
//
//   for each row, column: y[row][column] = sum over i of a[row][i] * b[column][i]
//
// A workgroup of DOWN x SIDE invocations computes a tile of outputs, 4 x 4 or 8 x 8 in the registers of each. STEP depths at a
// time pass through shared memory, in cells of four rows (of a) and in elements (of b):
//
//   a_cells[depth * A_PITCH + row / 4]    b_cells[depth * B_PITCH + column]
//
// `fill_*.wgsl` fill them. A weight is unpacked once for all rows of the tile: DOWN is 16 where there are enough rows.
// Outputs past the last row or column are not stored.
override WG: u32 = 64;
// Invocations along a column of the tile: WG / SIDE.
override DOWN: u32 = 8;
// Cells along a side of an invocation's outputs, 1 or 2.
override QUADS: u32 = 1;
// Cells of `a`, and elements of `b`, from one depth to the next: a cell more than the tile has, so that neighbours in depth
// lie in different banks.
override A_PITCH: u32 = 9;
override B_PITCH: u32 = 36;
override A_CELLS: u32 = 144;
override B_CELLS: u32 = 576;

// Invocations along a row of the tile.
const SIDE: u32 = 8u;
const STEP: u32 = 16u;
// Parts of a step of a row that invocations fill.
const FOURS: u32 = STEP / 4u;
// Columns of the tile.
override COLUMNS: u32 = 4u * SIDE * QUADS;

// The second outputs of an invocation lie SIDE cells on, or DOWN.
var<workgroup> a_cells: array<vec4<f32>, A_CELLS>;
var<workgroup> b_cells: array<f32, B_CELLS>;

// Where four rows of the activations begin.
fn starts_a(tile: Tile, first: u32) -> vec4<u32> {
    return vec4<u32>(start_a(tile, first), start_a(tile, first + 1u), start_a(tile, first + 2u), start_a(tile, first + 3u));
}

// Four columns at a depth: elements from `at` on.
fn four_columns(at: u32) -> vec4<f32> {
    return vec4<f32>(b_cells[at], b_cells[at + 1u], b_cells[at + 2u], b_cells[at + 3u]);
}

// The outputs of an invocation: of the first four columns, and of the second four, for each row.
struct Square {
    sum_0: vec4<f32>,
    sum_1: vec4<f32>,
    sum_2: vec4<f32>,
    sum_3: vec4<f32>,
    sum_4: vec4<f32>,
    sum_5: vec4<f32>,
    sum_6: vec4<f32>,
    sum_7: vec4<f32>,
    far_0: vec4<f32>,
    far_1: vec4<f32>,
    far_2: vec4<f32>,
    far_3: vec4<f32>,
    far_4: vec4<f32>,
    far_5: vec4<f32>,
    far_6: vec4<f32>,
    far_7: vec4<f32>,
}

// Adds the products at a depth to the sums of an invocation: `a` is its cell of rows there, `b` its first column.
fn add_depth(sums: ptr<function, Square>, a: u32, b: u32) {
    let rows = a_cells[a];
    let columns = four_columns(b);
    (*sums).sum_0 += rows.x * columns;
    (*sums).sum_1 += rows.y * columns;
    (*sums).sum_2 += rows.z * columns;
    (*sums).sum_3 += rows.w * columns;
    if QUADS > 1u {
        let far_rows = a_cells[a + DOWN];
        let far_columns = four_columns(b + SIDE * 4u);
        (*sums).sum_4 += far_rows.x * columns;
        (*sums).sum_5 += far_rows.y * columns;
        (*sums).sum_6 += far_rows.z * columns;
        (*sums).sum_7 += far_rows.w * columns;
        (*sums).far_0 += rows.x * far_columns;
        (*sums).far_1 += rows.y * far_columns;
        (*sums).far_2 += rows.z * far_columns;
        (*sums).far_3 += rows.w * far_columns;
        (*sums).far_4 += far_rows.x * far_columns;
        (*sums).far_5 += far_rows.y * far_columns;
        (*sums).far_6 += far_rows.z * far_columns;
        (*sums).far_7 += far_rows.w * far_columns;
    }
}
