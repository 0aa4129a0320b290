// Shared by GEMM kernels in matrices that subgroups multiply, for any number of rows:
//
//   for each row, column: y[row][column] = sum over i of a[row][i] * b[column][i]
//
// A workgroup of four subgroups computes a square of TILE x TILE outputs, each subgroup a quarter: 4 x 4 matrices in its
// registers. STEP depths at a time pass through shared memory, with depths side by side, as in memory:
//
//   a_cells[row * PITCH + depth]    b_cells[column * PITCH + depth]
//
// An invocation fills sixteen depths of a row and of a column. Rows and columns past the last are the last again; their outputs
// are not stored. Factors of f16 are rounded from f32, to nearest even: the host requires it (`Features::f16_rounding`). So one that
// f16 cannot hold is infinite there, or NaN, and so are all sums that it is in: these are summed again in f32, from the arguments.
override WG: u32 = 128;

const STEP: u32 = 32u;
const PITCH: u32 = STEP + PAD;
const TILE: u32 = 8u * SIDE;
const QUARTER: u32 = 4u * SIDE;
// Outputs of a quarter that pass through shared memory at a time: two matrices side by side.
const PAIR: u32 = 2u * SIDE * SIDE;
// Fours of these outputs in all quarters.
const FOURS: u32 = PAIR;
// Turns in which the workgroup stores them.
override TURNS: u32 = (FOURS + WG - 1u) / WG;

var<workgroup> a_cells: array<Element, TILE * PITCH>;
var<workgroup> b_cells: array<Element, TILE * PITCH>;
var<workgroup> y_cells: array<f32, 4u * PAIR>;

// The number of the invocation's subgroup.
var<private> quarter: u32;

fn put_a(at: u32, values: vec4<f32>) {
    let cells = vec4<Element>(values);
    a_cells[at] = cells.x;
    a_cells[at + 1u] = cells.y;
    a_cells[at + 2u] = cells.z;
    a_cells[at + 3u] = cells.w;
}

fn put_b(at: u32, values: vec4<f32>) {
    let cells = vec4<Element>(values);
    b_cells[at] = cells.x;
    b_cells[at + 1u] = cells.y;
    b_cells[at + 2u] = cells.z;
    b_cells[at + 3u] = cells.w;
}

// Brings two matrices of each quarter to shared memory. What is stored must have a name.
fn put_pair(left: Sums, right: Sums) {
    let first = quarter * PAIR;
    let to_left = &y_cells[first];
    let to_right = &y_cells[first + SIDE];
    coopStoreT(left, to_left, 2u * SIDE);
    coopStoreT(right, to_right, 2u * SIDE);
}

// The row and the first column, in the tile, of four outputs of a pair.
fn place_of(pair: u32, four: u32) -> vec2<u32> {
    let part = four / (PAIR / 4u);
    let i = four % (PAIR / 4u);
    let row = part / 2u * QUARTER + pair / 2u * SIDE + i / (SIDE / 2u);
    let column = part % 2u * QUARTER + pair % 2u * (2u * SIDE) + i % (SIDE / 2u) * 4u;
    return vec2<u32>(row, column);
}

// Whether all four are finite.
fn are_finite(values: vec4<f32>) -> bool {
    return all((bitcast<vec4<u32>>(values) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u));
}
