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

// Those of a row, of which `at` is an element of the first.
fn row_activations_$NAME(at: u32, row: u32) -> mat4x4<f32> {
    return activations_$NAME(at + row_start(row));
}

// Dot products over `k` elements of the four columns that begin at `b` with the rows from `a` on; the first invocation of the
// team has them. Call from uniform control flow: teams without work pass a `k` of 0.
fn sums_$NAME(lane: u32, k: u32, a: u32, b: vec4<u32>) -> Sums {
    var sums = Sums();
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
        add_rows_$NAME(&sums, weights, a + at);
    }
    if TAIL > 0u {
        for (var i = k / 16u * 16u + lane % TEAM; i < k; i += TEAM) {
            let weights = vec4<f32>(load_$NAME(b.x + i), load_$NAME(b.y + i), load_$NAME(b.z + i), load_$NAME(b.w + i));
            sums.row_0 += weights * load_a(a + i);
            if ROWS > 1u {
                sums.row_1 += weights * load_a(a + i + row_start(1u));
            }
            if ROWS > 2u {
                sums.row_2 += weights * load_a(a + i + row_start(2u));
                sums.row_3 += weights * load_a(a + i + row_start(3u));
            }
            if ROWS > 4u {
                sums.row_4 += weights * load_a(a + i + row_start(4u));
                sums.row_5 += weights * load_a(a + i + row_start(5u));
                sums.row_6 += weights * load_a(a + i + row_start(6u));
                sums.row_7 += weights * load_a(a + i + row_start(7u));
            }
        }
    }
    return sums_of_team(sums, lane);
}
