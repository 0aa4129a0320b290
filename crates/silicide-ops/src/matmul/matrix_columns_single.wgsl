// Sixteen weights of the column of `$NAME` that begins at `first`, the first or the second of a step: for depths of any length.
// Past the end of the depth they are zero.
fn fill_$NAME(first: u32, start: u32, half: u32, cell: u32) {
    for (var i = half * 16u; i < half * 16u + 16u; i++) {
        var value = 0.0;
        if start + i < p.k {
            value = load_$NAME(first + start + i);
        }
        b_cells[cell + i] = Element(value);
    }
}

// The product of a row of the activations and a column of `$NAME`, in f32.
fn exact_$NAME(row: u32, column: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < p.k; i++) {
        sum += load_a(row + i) * load_$NAME(column + i);
    }
    return sum;
}
