// Shared by GEMM kernels, for any number of rows:
//
//   for each row, column: y[row][column] = sum over i of a[row][i] * b[column][i]
//
// A workgroup of 8 x 8 invocations computes a square of outputs, 4 x 4 or 8 x 8 in the registers of each. STEP depths at a
// time pass through shared memory, in cells of four rows (of a) or four columns (of b) at one depth:
//
//   a_cells[depth * PITCH + row / 4]    b_cells[depth * PITCH + column / 4]
//
// `fill_eight.wgsl` or `fill_single.wgsl` fills them. Outputs past the last row or column are not stored.
override WG: u32 = 64;
// Cells along a side of an invocation's outputs, 1 or 2.
override QUADS: u32 = 1;
// One cell more than a side of the workgroup's square, so that neighbours in depth lie in different banks.
override PITCH: u32 = 9;
override CELLS: u32 = 144;

const SIDE: u32 = 8u;
const STEP: u32 = 16u;

// The second square of an invocation lies SIDE cells on.
var<workgroup> a_cells: array<vec4<f32>, CELLS>;
var<workgroup> b_cells: array<vec4<f32>, CELLS>;

fn set_a(cell: u32, values: vec4<f32>) {
    a_cells[cell] = values;
}

fn set_b(cell: u32, values: vec4<f32>) {
    b_cells[cell] = values;
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
