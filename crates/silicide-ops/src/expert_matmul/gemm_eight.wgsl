// Cells by eight elements of four rows, and of four columns: depths are whole steps, and formats unpack so best. Past the last
// column it is the last one again, which is not stored.
fn x_eight(at: u32) -> mat2x4<f32> {
    return mat2x4<f32>(
        load_x(at), load_x(at + 1u), load_x(at + 2u), load_x(at + 3u),
        load_x(at + 4u), load_x(at + 5u), load_x(at + 6u), load_x(at + 7u),
    );
}

fn fill(square: Square, start: u32, lane: u32) {
    let eights = STEP / 8u;
    let items = SIDE * eights;
    let item = lane % items;
    let quad = item / eights;
    let depth = item % eights * 8u;
    let cell = depth * PITCH + quad;
    if lane < items {
        let first = x_eight(starts[quad * 4u] + start + depth);
        let second = x_eight(starts[quad * 4u + 1u] + start + depth);
        let third = x_eight(starts[quad * 4u + 2u] + start + depth);
        let fourth = x_eight(starts[quad * 4u + 3u] + start + depth);
        let near = transpose(mat4x4<f32>(first[0], second[0], third[0], fourth[0]));
        let deep = transpose(mat4x4<f32>(first[1], second[1], third[1], fourth[1]));
        for (var i = 0u; i < 4u; i++) {
            a_cells[cell + i * PITCH] = near[i];
            a_cells[cell + (4u + i) * PITCH] = deep[i];
        }
    } else if lane < 2u * items {
        let columns = min(
            vec4<u32>(square.column + quad * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.columns - 1u),
        );
        let from_b = vec4<u32>(square.b + start + depth) + columns * p.k;
        let first = eight_b(from_b.x);
        let second = eight_b(from_b.y);
        let third = eight_b(from_b.z);
        let fourth = eight_b(from_b.w);
        let near = transpose(mat4x4<f32>(first[0], second[0], third[0], fourth[0]));
        let deep = transpose(mat4x4<f32>(first[1], second[1], third[1], fourth[1]));
        for (var i = 0u; i < 4u; i++) {
            b_cells[cell + i * PITCH] = near[i];
            b_cells[cell + (4u + i) * PITCH] = deep[i];
        }
    }
}
