// Shared by GEMV kernels, for at most 8 rows of activations:
//
//   for each row: y[row][column] = sum over i of a[row][i] * b[column][i]
//
// A workgroup is WG / TEAM teams of TEAM neighbouring invocations, a power of two; a team has COLUMNS columns. An invocation
// unpacks sixteen weights of each column into registers and multiplies them with all rows; the activations that it reads
// serve all columns. `few_shared.wgsl` or `few_subgroup.wgsl` adds the sums of a team and has the entry point. The sums of a
// product are those of `few_sums.wgsl`, or of `few_codes.wgsl` where offsets and depth allow it.
override WG: u32 = 64;
override TEAM: u32 = 8;
// Rows that are summed: the next power of two; rows past the last are the last again.
override ROWS: u32 = 1;
// Columns of a team: 1, 2 or 4.
override COLUMNS: u32 = 4;
// 1 if the depth is no multiple of 16; that of block formats always is.
override TAIL: u32 = 1;

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

// `sums`, and the products of four columns with sixteen activations.
fn add_values(sums: vec4<f32>, weights: Weights, x: mat4x4<f32>) -> vec4<f32> {
    var all = vec4<f32>(add_product(sums.x, weights.first, x), 0.0, 0.0, 0.0);
    if COLUMNS > 1u {
        all.y = add_product(sums.y, weights.second, x);
    }
    if COLUMNS > 2u {
        all.z = add_product(sums.z, weights.third, x);
        all.w = add_product(sums.w, weights.fourth, x);
    }
    return all;
}

// One sum of products after the other: a fused operation each.
fn add_product(start: f32, w: mat4x4<f32>, x: mat4x4<f32>) -> f32 {
    return add_four(add_four(add_four(add_four(start, w[0], x[0]), w[1], x[1]), w[2], x[2]), w[3], x[3]);
}
fn add_four(start: f32, w: vec4<f32>, x: vec4<f32>) -> f32 {
    return start + w.x * x.x + w.y * x.y + w.z * x.z + w.w * x.w;
}

// `sums`, and the products of sixteen codes of two columns with sixteen activations: those of the first eight and of the last of
// the first column, then of the second. The four sums alternate, so that GPUs can issue two operations at a time.
fn add_codes(sums: vec4<f32>, first: mat4x4<f32>, second: mat4x4<f32>, x: mat4x4<f32>) -> vec4<f32> {
    let near = mat4x4<f32>(first[0], first[2], second[0], second[2]);
    let far = mat4x4<f32>(first[1], first[3], second[1], second[3]);
    let near_x = mat4x4<f32>(x[0], x[2], x[0], x[2]);
    let far_x = mat4x4<f32>(x[1], x[3], x[1], x[3]);
    return add_dots(add_dots(sums, near, near_x), far, far_x);
}
// `sums`, and the dot product of each column of `codes` with that of `x`.
fn add_dots(sums: vec4<f32>, codes: mat4x4<f32>, x: mat4x4<f32>) -> vec4<f32> {
    let c = transpose(codes);
    let y = transpose(x);
    return sums + c[0] * y[0] + c[1] * y[1] + c[2] * y[2] + c[3] * y[3];
}

fn sum_of_four(values: vec4<f32>) -> f32 {
    return (values.x + values.y) + (values.z + values.w);
}

// Whether a sum is neither infinite nor NaN.
fn is_finite(sum: vec4<f32>) -> bool {
    return all((bitcast<vec4<u32>>(sum) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u));
}

// The sums of a team, for its first invocation. Call from uniform control flow.
fn sums_of_team(sums: Sums, lane: u32) -> Sums {
    var all = sums;
    all.row_0 = team_sums(sums.row_0, lane);
    if ROWS > 1u {
        all.row_1 = team_sums(sums.row_1, lane);
    }
    if ROWS > 2u {
        all.row_2 = team_sums(sums.row_2, lane);
        all.row_3 = team_sums(sums.row_3, lane);
    }
    if ROWS > 4u {
        all.row_4 = team_sums(sums.row_4, lane);
        all.row_5 = team_sums(sums.row_5, lane);
        all.row_6 = team_sums(sums.row_6, lane);
        all.row_7 = team_sums(sums.row_7, lane);
    }
    return all;
}
