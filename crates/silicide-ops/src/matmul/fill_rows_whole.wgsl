// Fills the cells of the activations by four elements of four rows, which begin at `starts`: for depths of whole steps.
fn four_a(at: u32) -> vec4<f32> {
    return vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u));
}

fn fill_a(tile: Tile, starts: vec4<u32>, start: u32, lane: u32) {
    if WG == DOWN * QUADS * FOURS || lane < DOWN * QUADS * FOURS {
        let depth = lane % FOURS * 4u;
        let at = starts + vec4<u32>(start + depth);
        let cells = transpose(mat4x4<f32>(four_a(at.x), four_a(at.y), four_a(at.z), four_a(at.w)));
        let cell = depth * A_PITCH + lane / FOURS;
        a_cells[cell] = cells[0];
        a_cells[cell + A_PITCH] = cells[1];
        a_cells[cell + 2u * A_PITCH] = cells[2];
        a_cells[cell + 3u * A_PITCH] = cells[3];
    }
}
