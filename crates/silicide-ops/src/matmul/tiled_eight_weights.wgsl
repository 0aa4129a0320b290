// Cells of the weights of one binding, by eight.
fn fill_$NAME(tile: Tile, start: u32, lane: u32) {
    let eights = STEP / 8u;
    let items = SIDE * QUADS * eights;
    // By the invocations that have been idle, if any.
    for (var item = (lane + WG / 2u) % WG; item < items; item += WG) {
        let quad = item / eights;
        let depth = item % eights * 8u;
        let cell = depth * PITCH + quad;
        let from_b = quad_starts(tile.b, tile.column + quad * 4u, tile.columns, start + depth);
        let first = eight_$NAME(from_b.x);
        let second = eight_$NAME(from_b.y);
        let third = eight_$NAME(from_b.z);
        let fourth = eight_$NAME(from_b.w);
        let near = transpose(mat4x4<f32>(first[0], second[0], third[0], fourth[0]));
        let deep = transpose(mat4x4<f32>(first[1], second[1], third[1], fourth[1]));
        set_b(cell, near[0]);
        set_b(cell + 1u * PITCH, near[1]);
        set_b(cell + 2u * PITCH, near[2]);
        set_b(cell + 3u * PITCH, near[3]);
        set_b(cell + 4u * PITCH, deep[0]);
        set_b(cell + 5u * PITCH, deep[1]);
        set_b(cell + 6u * PITCH, deep[2]);
        set_b(cell + 7u * PITCH, deep[3]);
    }
}
