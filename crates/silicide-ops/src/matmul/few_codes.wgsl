// Sums of `few_rows.wgsl` over the weights of the binding `$NAME`, whose format unpacks codes apart from their scales
// (`format/wgsl.rs`), with activations bound as vectors of four:
//
//   for each sixteen weights that the invocation has in a period of the format
//       for each period of the depth
//           sums[row][column] += dot(codes of the column, sixteen activations of the row)
//
// One or two rows meet codes, whose scales and offsets then meet sums. More rows meet weights that were scaled once for all rows.
// Offsets of words and bits in a block are computed before the inner loop, in which the heads of the
// blocks advance by a constant.

// The sixteen activations from vector `near` on.
fn activations_$NAME(near: u32) -> mat4x4<f32> {
    let far = near + SPREAD_$NAME / 4u;
    return mat4x4<f32>(quads_a[near], quads_a[near + 1u], quads_a[far], quads_a[far + 1u]);
}

// Those of a row.
fn row_activations_$NAME(near: u32, row: u32) -> mat4x4<f32> {
    return activations_$NAME(near + row_start(row) / 4u);
}

// Sixteen activations of one row or two, with the sums of their first eight and of their last.
struct Activations_$NAME {
    x_0: mat4x4<f32>,
    x_1: mat4x4<f32>,
    sums_0: vec2<f32>,
    sums_1: vec2<f32>,
}

fn read_rows_$NAME(near: u32) -> Activations_$NAME {
    let x_0 = activations_$NAME(near);
    let sums_0 = vec2<f32>(sum_of_four(x_0[0] + x_0[1]), sum_of_four(x_0[2] + x_0[3]));
    if ROWS < 2u {
        return Activations_$NAME(x_0, x_0, sums_0, sums_0);
    }
    let x_1 = row_activations_$NAME(near, 1u);
    let sums_1 = vec2<f32>(sum_of_four(x_1[0] + x_1[1]), sum_of_four(x_1[2] + x_1[3]));
    return Activations_$NAME(x_0, x_1, sums_0, sums_1);
}

// The sums of two columns, and their products with sixteen activations: of one row, or of two.
fn add_columns_$NAME(start: mat2x2<f32>, first: Codes_$NAME, second: Codes_$NAME, rows: Activations_$NAME) -> mat2x2<f32> {
    let sums = add_columns_of_row_$NAME(start[0], first, second, rows.x_0, rows.sums_0);
    if ROWS < 2u {
        return mat2x2<f32>(sums, vec2<f32>());
    }
    return mat2x2<f32>(sums, add_columns_of_row_$NAME(start[1], first, second, rows.x_1, rows.sums_1));
}
fn add_columns_of_row_$NAME(
    start: vec2<f32>, first: Codes_$NAME, second: Codes_$NAME, x: mat4x4<f32>, sums: vec2<f32>
) -> vec2<f32> {
    let initial = initial_$NAME(sums);
    let products = add_codes(vec4<f32>(initial, initial), first.values, second.values, x);
    return vec2<f32>(
        dot_$NAME(start.x, first, products.xy, sums), dot_$NAME(start.y, second, products.zw, sums)
    );
}

// The first of sixteen weights with number `i`.
fn inside_of_$NAME(i: u32) -> u32 {
    let eights = SPREAD_$NAME / 8u;
    return i / eights * (SPREAD_$NAME * 2u) + i % eights * 8u;
}

// An invocation's part of one dot product, weight by weight. Where an activation is infinite, the difference of a sum of codes and
// its offset is NaN, though the product may not be.
fn exact_$NAME(lane: u32, k: u32, a: u32, b: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane % TEAM; i < k / 16u; i += TEAM) {
        let at = inside_of_$NAME(i);
        sum += product(weights_$NAME(b + at), activations_$NAME((p.a_offset + a + at) >> 2u));
    }
    return sum;
}

// Dot products over `k` elements of the columns that begin at `b` with the rows from `a` on; the first invocation of the
// team has them. Call from uniform control flow: teams without work pass a `k` of 0.
fn sums_$NAME(lane: u32, k: u32, a: u32, b: vec4<u32>) -> Sums {
    prepare_$NAME(lane);
    var sums = Sums();
    // Elements of a pass: whole periods.
    let stride = max(TEAM * 16u, PERIOD_$NAME);
    for (var i = lane % TEAM; i < stride / 16u; i += TEAM) {
        let inside = inside_of_$NAME(i);
        let at_0 = b.x + inside;
        let at_1 = b.y + inside;
        let at_2 = b.z + inside;
        let at_3 = b.w + inside;
        let offsets_0 = offsets_$NAME(at_0, inside);
        let offsets_1 = offsets_$NAME(at_1, inside);
        let offsets_2 = offsets_$NAME(at_2, inside);
        let offsets_3 = offsets_$NAME(at_3, inside);
        var heads = vec4<u32>(head_$NAME(at_0), head_$NAME(at_1), head_$NAME(at_2), head_$NAME(at_3));
        var near = (p.a_offset + a + inside) >> 2u;
        for (var at = inside; at < k; at += stride) {
            if ROWS < 3u {
                // Two columns after the others: their codes need the same registers.
                let rows = read_rows_$NAME(near);
                let first = codes_$NAME(heads.x, offsets_0);
                var second = first;
                if COLUMNS > 1u {
                    second = codes_$NAME(heads.y, offsets_1);
                }
                let near_sums = add_columns_$NAME(mat2x2<f32>(sums.row_0.xy, sums.row_1.xy), first, second, rows);
                sums.row_0 = vec4<f32>(near_sums[0], sums.row_0.zw);
                sums.row_1 = vec4<f32>(near_sums[1], sums.row_1.zw);
                if COLUMNS > 2u {
                    let third = codes_$NAME(heads.z, offsets_2);
                    let fourth = codes_$NAME(heads.w, offsets_3);
                    let far_sums = add_columns_$NAME(mat2x2<f32>(sums.row_0.zw, sums.row_1.zw), third, fourth, rows);
                    sums.row_0 = vec4<f32>(sums.row_0.xy, far_sums[0]);
                    sums.row_1 = vec4<f32>(sums.row_1.xy, far_sums[1]);
                }
            } else {
                var weights: Weights;
                weights.first = values_$NAME(codes_$NAME(heads.x, offsets_0));
                if COLUMNS > 1u {
                    weights.second = values_$NAME(codes_$NAME(heads.y, offsets_1));
                }
                if COLUMNS > 2u {
                    weights.third = values_$NAME(codes_$NAME(heads.z, offsets_2));
                    weights.fourth = values_$NAME(codes_$NAME(heads.w, offsets_3));
                }
                add_rows_$NAME(&sums, weights, near);
            }
            near += stride / 4u;
            heads += vec4<u32>(stride / PERIOD_$NAME * STEP_$NAME);
        }
    }
    if FACTORED_$NAME && ROWS < 3u && !(is_finite(sums.row_0) && is_finite(sums.row_1)) {
        for (var i = 0u; i < ROWS * COLUMNS; i++) {
            let row = i / COLUMNS;
            let column = i % COLUMNS;
            let first = select(select(b.x, b.y, column == 1u), select(b.z, b.w, column == 3u), column > 1u);
            let sum = exact_$NAME(lane, k, a + row_start(row), first);
            let is_column = vec4<u32>(column) == vec4<u32>(0u, 1u, 2u, 3u);
            sums.row_0 = select(sums.row_0, vec4<f32>(sum), is_column & vec4<bool>(row == 0u));
            sums.row_1 = select(sums.row_1, vec4<f32>(sum), is_column & vec4<bool>(row == 1u));
        }
    }
    return sums_of_team(sums, lane);
}
