// Where the first or the second sixteen weights of a step of `$NAME` begin.
fn part_$NAME(half: u32) -> u32 {
    return half * 16u;
}

// What `fill_$NAME` takes of the column that begins at element `first`.
fn column_part_$NAME(first: u32, half: u32) -> u32 {
    return first + part_$NAME(half);
}

// Fills the cells from `cell` on by sixteen weights of a column at `depth`: for depths of any length. Past the end of the depth
// they are zero.
fn fill_$NAME(column: u32, depth: u32, half: u32, cell: u32) {
    for (var i = 0u; i < 16u; i++) {
        var value = 0.0;
        if depth + half * 16u + i < p.k {
            value = load_$NAME(column + depth + i);
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
