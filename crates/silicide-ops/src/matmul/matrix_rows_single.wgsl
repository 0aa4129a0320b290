// Fills the cells from `cell` on by sixteen activations from element `at` on, which are at `depth`: for depths of any length.
// Past the end of the depth they are zero.
fn fill_a(at: u32, depth: u32, cell: u32) {
    for (var i = 0u; i < 16u; i++) {
        var value = 0.0;
        if depth + i < p.k {
            value = load_a(at + i);
        }
        a_cells[cell + i] = Element(value);
    }
}
