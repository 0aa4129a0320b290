// Sixteen activations of the row that begins at `first`, the first or the second of a step: for depths of any length. Past the
// end of the depth they are zero.
fn fill_a(first: u32, start: u32, half: u32, cell: u32) {
    for (var i = half * 16u; i < half * 16u + 16u; i++) {
        var value = 0.0;
        if start + i < p.k {
            value = load_a(first + start + i);
        }
        a_cells[cell + i] = Element(value);
    }
}
