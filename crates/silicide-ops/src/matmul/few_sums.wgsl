// Sums of `few_rows.wgsl` over the weights of the binding `$NAME`, of any format, at any offset and depth.

// The sixteen elements of a row that `sixteen_$NAME` has the weights of.
fn activations_$NAME(at: u32) -> mat4x4<f32> {
    let far = at + SPREAD_$NAME;
    return mat4x4<f32>(
        load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u),
        load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u),
        load_a(far), load_a(far + 1u), load_a(far + 2u), load_a(far + 3u),
        load_a(far + 4u), load_a(far + 5u), load_a(far + 6u), load_a(far + 7u),
    );
}

// Dot products over `k` elements of the four columns that begin at `b` with the rows from `a` on; the first invocation of the
// team has them. Call from uniform control flow: teams without work pass a `k` of 0.
fn sums_$NAME(lane: u32, k: u32, a: u32, b: vec4<u32>) -> Sums {
    // One for each row, of four columns.
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    var sum_4 = vec4<f32>();
    var sum_5 = vec4<f32>();
    var sum_6 = vec4<f32>();
    var sum_7 = vec4<f32>();
    let eights = SPREAD_$NAME / 8u;
    for (var i = lane % TEAM; i < k / 16u; i += TEAM) {
        let at = i / eights * (SPREAD_$NAME * 2u) + i % eights * 8u;
        var weights: Weights;
        weights.first = sixteen_$NAME(b.x + at);
        if COLUMNS > 1u {
            weights.second = sixteen_$NAME(b.y + at);
        }
        if COLUMNS > 2u {
            weights.third = sixteen_$NAME(b.z + at);
            weights.fourth = sixteen_$NAME(b.w + at);
        }
        sum_0 = add_values(sum_0, weights, activations_$NAME(a + at + row_start(0u)));
        if ROWS > 1u {
            sum_1 = add_values(sum_1, weights, activations_$NAME(a + at + row_start(1u)));
        }
        if ROWS > 2u {
            sum_2 = add_values(sum_2, weights, activations_$NAME(a + at + row_start(2u)));
            sum_3 = add_values(sum_3, weights, activations_$NAME(a + at + row_start(3u)));
        }
        if ROWS > 4u {
            sum_4 = add_values(sum_4, weights, activations_$NAME(a + at + row_start(4u)));
            sum_5 = add_values(sum_5, weights, activations_$NAME(a + at + row_start(5u)));
            sum_6 = add_values(sum_6, weights, activations_$NAME(a + at + row_start(6u)));
            sum_7 = add_values(sum_7, weights, activations_$NAME(a + at + row_start(7u)));
        }
    }
    if TAIL > 0u {
        for (var i = k / 16u * 16u + lane % TEAM; i < k; i += TEAM) {
            let weights = vec4<f32>(load_$NAME(b.x + i), load_$NAME(b.y + i), load_$NAME(b.z + i), load_$NAME(b.w + i));
            sum_0 += weights * load_a(a + i);
            if ROWS > 1u {
                sum_1 += weights * load_a(a + i + row_start(1u));
            }
            if ROWS > 2u {
                sum_2 += weights * load_a(a + i + row_start(2u));
                sum_3 += weights * load_a(a + i + row_start(3u));
            }
            if ROWS > 4u {
                sum_4 += weights * load_a(a + i + row_start(4u));
                sum_5 += weights * load_a(a + i + row_start(5u));
                sum_6 += weights * load_a(a + i + row_start(6u));
                sum_7 += weights * load_a(a + i + row_start(7u));
            }
        }
    }
    return sums_of_team(Sums(sum_0, sum_1, sum_2, sum_3, sum_4, sum_5, sum_6, sum_7), lane);
}
