// Sixteen activations of the row that begins at `first`, the first or the second of a step: for depths of whole steps.
fn fill_a(first: u32, start: u32, half: u32, cell: u32) {
    let at = first + start + half * 16u;
    let to = cell + half * 16u;
    put_a(to, vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u)));
    put_a(to + 4u, vec4<f32>(load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u)));
    put_a(to + 8u, vec4<f32>(load_a(at + 8u), load_a(at + 9u), load_a(at + 10u), load_a(at + 11u)));
    put_a(to + 12u, vec4<f32>(load_a(at + 12u), load_a(at + 13u), load_a(at + 14u), load_a(at + 15u)));
}
