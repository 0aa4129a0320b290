// Sums of `few_rows.wgsl` over the weights of the binding `$NAME`, whose format unpacks codes apart from their scales
// (`format/wgsl.rs`), with activations bound as vectors of four:
//
//   for each place that the invocation has in a period of the format
//       for each period of the depth
//           sums[row][column] += dot(codes of the column, sixteen activations of the row)
//
// One or two rows meet codes, whose scales and offsets then meet sums. More rows meet weights that were scaled once for all rows.
// What the place decides (shifts, sub-blocks, words of the block) is computed before the inner loop, in which the heads of the
// blocks advance by a constant.

// The sixteen activations from vector `near` on.
fn activations_$NAME(near: u32) -> mat4x4<f32> {
    let far = near + SPREAD_$NAME / 4u;
    return mat4x4<f32>(quads_a[near], quads_a[near + 1u], quads_a[far], quads_a[far + 1u]);
}

// Sixteen activations of one row or two, with the sums of their first eight and of their last.
struct Rows_$NAME {
    x_0: mat4x4<f32>,
    x_1: mat4x4<f32>,
    sums_0: vec2<f32>,
    sums_1: vec2<f32>,
}

fn rows_$NAME(near: u32) -> Rows_$NAME {
    let x_0 = activations_$NAME(near);
    let sums_0 = vec2<f32>(sum_of_four(x_0[0] + x_0[1]), sum_of_four(x_0[2] + x_0[3]));
    if ROWS < 2u {
        return Rows_$NAME(x_0, x_0, sums_0, sums_0);
    }
    let x_1 = activations_$NAME(near + row_start(1u) / 4u);
    let sums_1 = vec2<f32>(sum_of_four(x_1[0] + x_1[1]), sum_of_four(x_1[2] + x_1[3]));
    return Rows_$NAME(x_0, x_1, sums_0, sums_1);
}

// The sums of a column for both rows, and its products with sixteen activations of each.
fn add_column_$NAME(start: vec2<f32>, codes: Codes_$NAME, rows: Rows_$NAME) -> vec2<f32> {
    let sum_0 = dot_$NAME(start.x, codes, rows.x_0, rows.sums_0);
    if ROWS < 2u {
        return vec2<f32>(sum_0, 0.0);
    }
    return vec2<f32>(sum_0, dot_$NAME(start.y, codes, rows.x_1, rows.sums_1));
}

// The first of sixteen weights with number `i`.
fn place_of_$NAME(i: u32) -> u32 {
    let eights = SPREAD_$NAME / 8u;
    return i / eights * (SPREAD_$NAME * 2u) + i % eights * 8u;
}

// An invocation's part of one dot product, weight by weight. Where an activation is infinite, the difference of a sum of codes and
// its offset is NaN, though the product may not be.
fn exact_$NAME(lane: u32, k: u32, a: u32, b: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane % TEAM; i < k / 16u; i += TEAM) {
        let at = place_of_$NAME(i);
        sum += product(weights_$NAME(b + at), activations_$NAME((p.a_offset + a + at) >> 2u));
    }
    return sum;
}

// Dot products over `k` elements of the columns that begin at `b` with the rows from `a` on; the first invocation of the
// team has them. Call from uniform control flow: teams without work pass a `k` of 0.
fn sums_$NAME(lane: u32, k: u32, a: u32, b: vec4<u32>) -> Sums {
    prepare_$NAME(lane);
    // One for each row, of four columns.
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    // Elements of a pass: whole periods.
    let stride = max(TEAM * 16u, PERIOD_$NAME);
    for (var i = lane % TEAM; i < stride / 16u; i += TEAM) {
        let inside = place_of_$NAME(i);
        let at_0 = b.x + inside;
        let at_1 = b.y + inside;
        let at_2 = b.z + inside;
        let at_3 = b.w + inside;
        let place_0 = place_$NAME(at_0, inside);
        let place_1 = place_$NAME(at_1, inside);
        let place_2 = place_$NAME(at_2, inside);
        let place_3 = place_$NAME(at_3, inside);
        var heads = vec4<u32>(head_$NAME(at_0), head_$NAME(at_1), head_$NAME(at_2), head_$NAME(at_3));
        var near = (p.a_offset + a + inside) >> 2u;
        for (var at = inside; at < k; at += stride) {
            if ROWS < 3u {
                // A column after the other: their codes need the same registers.
                let rows = rows_$NAME(near);
                let first = add_column_$NAME(vec2<f32>(sum_0.x, sum_1.x), codes_$NAME(heads.x, place_0), rows);
                sum_0.x = first.x;
                sum_1.x = first.y;
                if COLUMNS > 1u {
                    let second = add_column_$NAME(vec2<f32>(sum_0.y, sum_1.y), codes_$NAME(heads.y, place_1), rows);
                    sum_0.y = second.x;
                    sum_1.y = second.y;
                }
                if COLUMNS > 2u {
                    let third = add_column_$NAME(vec2<f32>(sum_0.z, sum_1.z), codes_$NAME(heads.z, place_2), rows);
                    sum_0.z = third.x;
                    sum_1.z = third.y;
                    let fourth = add_column_$NAME(vec2<f32>(sum_0.w, sum_1.w), codes_$NAME(heads.w, place_3), rows);
                    sum_0.w = fourth.x;
                    sum_1.w = fourth.y;
                }
            } else {
                var weights: Weights;
                weights.first = values_$NAME(codes_$NAME(heads.x, place_0));
                if COLUMNS > 1u {
                    weights.second = values_$NAME(codes_$NAME(heads.y, place_1));
                }
                if COLUMNS > 2u {
                    weights.third = values_$NAME(codes_$NAME(heads.z, place_2));
                    weights.fourth = values_$NAME(codes_$NAME(heads.w, place_3));
                }
                sum_0 = add_values(sum_0, weights, activations_$NAME(near));
                sum_1 = add_values(sum_1, weights, activations_$NAME(near + row_start(1u) / 4u));
                sum_2 = add_values(sum_2, weights, activations_$NAME(near + row_start(2u) / 4u));
                sum_3 = add_values(sum_3, weights, activations_$NAME(near + row_start(3u) / 4u));
                if ROWS > 4u {
                    sum_4 = add_values(sum_4, weights, activations_$NAME(near + row_start(4u) / 4u));
                    sum_5 = add_values(sum_5, weights, activations_$NAME(near + row_start(5u) / 4u));
                    sum_6 = add_values(sum_6, weights, activations_$NAME(near + row_start(6u) / 4u));
                    sum_7 = add_values(sum_7, weights, activations_$NAME(near + row_start(7u) / 4u));
                }
            }
            near += stride / 4u;
            heads += vec4<u32>(stride / PERIOD_$NAME * STEP_$NAME);
        }
    }
    if FACTORED_$NAME && ROWS < 3u && !(is_finite(sum_0) && is_finite(sum_1)) {
        for (var i = 0u; i < ROWS * COLUMNS; i++) {
            let row = i / COLUMNS;
            let column = i % COLUMNS;
            let first = select(select(b.x, b.y, column == 1u), select(b.z, b.w, column == 3u), column > 1u);
            let sum = exact_$NAME(lane, k, a + row_start(row), first);
            let is_column = vec4<u32>(column) == vec4<u32>(0u, 1u, 2u, 3u);
            sum_0 = select(sum_0, vec4<f32>(sum), is_column & vec4<bool>(row == 0u));
            sum_1 = select(sum_1, vec4<f32>(sum), is_column & vec4<bool>(row == 1u));
        }
    }
    return sums_of_team(Sums(sum_0, sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7), lane);
}
