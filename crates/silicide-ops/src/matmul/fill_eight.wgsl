// Fills the cells of `$NAME` by eight elements of four rows: for depths of whole steps. Block formats unpack eight elements
// best.
fn fill_$NAME(tile: Tile, start: u32, lane: u32) {
    let eights = STEP / 8u;
    for (var item = lane_$NAME(lane); item < SIDE * QUADS * eights; item += WG) {
        let quad = item / eights;
        let depth = item % eights * 8u;
        let cell = depth * PITCH + quad;
        let at = starts_$NAME(tile, quad * 4u) + vec4<u32>(start + depth);
        let first = eight_$NAME(at.x);
        let second = eight_$NAME(at.y);
        let third = eight_$NAME(at.z);
        let fourth = eight_$NAME(at.w);
        let near = transpose(mat4x4<f32>(first[0], second[0], third[0], fourth[0]));
        let deep = transpose(mat4x4<f32>(first[1], second[1], third[1], fourth[1]));
        set_cell_$NAME(cell, near[0]);
        set_cell_$NAME(cell + 1u * PITCH, near[1]);
        set_cell_$NAME(cell + 2u * PITCH, near[2]);
        set_cell_$NAME(cell + 3u * PITCH, near[3]);
        set_cell_$NAME(cell + 4u * PITCH, deep[0]);
        set_cell_$NAME(cell + 5u * PITCH, deep[1]);
        set_cell_$NAME(cell + 6u * PITCH, deep[2]);
        set_cell_$NAME(cell + 7u * PITCH, deep[3]);
    }
}
