// Shared by GEMV kernels, for at most 8 rows of activations:
//
//   for each row: y[row][column] = sum over i of a[row][i] * b[column][i]
//
// A workgroup is WG / TEAM teams of TEAM neighbouring invocations, a power of two; a team has four columns. An invocation
// dequantizes sixteen weights of each column into registers and multiplies them with all rows; the activations that it reads
// serve four columns. `few_shared.wgsl` or `few_subgroup.wgsl` adds the sums of a team and has the entry point.
override WG: u32 = 64;
override TEAM: u32 = 8;
// Rows that are summed: the next power of two; rows past the last are the last again.
override ROWS: u32 = 1;
// 1 if the depth is no multiple of 16; that of block formats always is.
override TAIL: u32 = 1;

const COLUMNS: u32 = 4u;

// Sixteen weights of four columns.
struct Weights {
    first: mat4x4<f32>,
    second: mat4x4<f32>,
    third: mat4x4<f32>,
    fourth: mat4x4<f32>,
}

// Four columns of each row.
struct Sums {
    row_0: vec4<f32>,
    row_1: vec4<f32>,
    row_2: vec4<f32>,
    row_3: vec4<f32>,
    row_4: vec4<f32>,
    row_5: vec4<f32>,
    row_6: vec4<f32>,
    row_7: vec4<f32>,
}

fn product(weights: mat4x4<f32>, a: mat4x4<f32>) -> f32 {
    let low = dot(weights[0], a[0]) + dot(weights[1], a[1]);
    return low + (dot(weights[2], a[2]) + dot(weights[3], a[3]));
}

// The first element of a row; rows past the last are the last again.
fn row_start(row: u32) -> u32 {
    return min(row, p.rows - 1u) * p.k;
}
