// Cells by eight elements of four rows, or of four columns: depths are whole steps, and formats unpack so best. Past
// the last row or column it is the last one again, which is not stored.
fn a_eight(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(
        load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u),
        load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u),
    );
}

// Where eight elements of four rows begin, or of four columns.
fn quad_starts(base: u32, first: u32, count: u32, i: u32) -> vec4<u32> {
    let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
    return vec4<u32>(base + i) + rows * p.k;
}

fn fill_a(tile: Tile, start: u32, lane: u32) {
    let eights = STEP / 8u;
    let items = SIDE * QUADS * eights;
    for (var item = lane; item < items; item += WG) {
        let quad = item / eights;
        let depth = item % eights * 8u;
        let cell = depth * PITCH + quad;
        let from_a = quad_starts(tile.a, tile.row + quad * 4u, p.rows, start + depth);
        let first = a_eight(from_a.x);
        let second = a_eight(from_a.y);
        let third = a_eight(from_a.z);
        let fourth = a_eight(from_a.w);
        let near = transpose(mat4x4<f32>(first[0], second[0], third[0], fourth[0]));
        let deep = transpose(mat4x4<f32>(first[1], second[1], third[1], fourth[1]));
        set_a(cell, near[0]);
        set_a(cell + 1u * PITCH, near[1]);
        set_a(cell + 2u * PITCH, near[2]);
        set_a(cell + 3u * PITCH, near[3]);
        set_a(cell + 4u * PITCH, deep[0]);
        set_a(cell + 5u * PITCH, deep[1]);
        set_a(cell + 6u * PITCH, deep[2]);
        set_a(cell + 7u * PITCH, deep[3]);
    }
}
