// What kernels for at most 8 rows share. Workgroups are cut in teams of TEAM neighbouring invocations, a power of two, with
// four weight columns each. An invocation unpacks sixteen weights of each column into registers, where they meet all
// rows; what it reads of the rows serves four columns. Other parts add up the team's sums and have the entry point.
override WG: u32 = 64;
override TEAM: u32 = 8;
// Rows that are summed: those of the problem, and some that are the last again.
override ROWS: u32 = 1;
// Whether depths are not whole sixteens, which those of block formats always are.
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

// Where a row begins; past the last row it is the last one's.
fn row_start(row: u32) -> u32 {
    return min(row, p.rows - 1u) * p.k;
}
