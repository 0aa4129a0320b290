// Fills the cells from `cell` on by sixteen activations from element `at` on, which are at `depth`: for depths of whole steps.
fn fill_a(at: u32, depth: u32, cell: u32) {
    put_a(cell, vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u)));
    put_a(cell + 4u, vec4<f32>(load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u)));
    put_a(cell + 8u, vec4<f32>(load_a(at + 8u), load_a(at + 9u), load_a(at + 10u), load_a(at + 11u)));
    put_a(cell + 12u, vec4<f32>(load_a(at + 12u), load_a(at + 13u), load_a(at + 14u), load_a(at + 15u)));
}
