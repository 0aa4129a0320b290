// A workgroup sees all keys of its rows, so its results are whole but for the sink.
fn work_of(group: vec3<u32>, groups: vec3<u32>) -> Work {
    let rows = p.tokens * shared_by();
    let chunks = (rows + ROWS - 1u) / ROWS;
    let number = linear_group(group, groups);
    return Work(number % chunks * ROWS, rows, 0u, number / chunks, 0u, 0u, MOST_POSITIONS);
}

fn store_row(work: Work, i: u32, d: u32, value: f32) {
    if work.row + i < work.rows {
        store_out(query_row(work, i) * VALUES + d, value);
    }
}
