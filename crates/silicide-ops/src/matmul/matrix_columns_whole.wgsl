// Sixteen weights of the column of `$NAME` that begins at `first`, the first or the second of a step: for depths of whole steps.
fn fill_$NAME(first: u32, start: u32, half: u32, cell: u32) {
    if SPREAD_$NAME <= 16u {
        // A step is one run of sixteens, or two.
        let offset = half * select(8u, 16u, SPREAD_$NAME == 8u);
        let weights = sixteen_$NAME(first + start + offset);
        put_b(cell + offset, weights[0]);
        put_b(cell + offset + 4u, weights[1]);
        put_b(cell + offset + SPREAD_$NAME, weights[2]);
        put_b(cell + offset + SPREAD_$NAME + 4u, weights[3]);
    } else {
        let offset = half * 16u;
        let low = eight_$NAME(first + start + offset);
        let high = eight_$NAME(first + start + offset + 8u);
        put_b(cell + offset, low[0]);
        put_b(cell + offset + 4u, low[1]);
        put_b(cell + offset + 8u, high[0]);
        put_b(cell + offset + 12u, high[1]);
    }
}

// The product of a row of the activations and a column of `$NAME`, in f32.
fn exact_$NAME(row: u32, column: u32) -> f32 {
    var sums = vec4<f32>();
    for (var i = 0u; i < p.k; i += 8u) {
        let weights = eight_$NAME(column + i);
        let at = row + i;
        sums += weights[0] * vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u));
        sums += weights[1] * vec4<f32>(load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u));
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}
