// A run leaves parts, to be joined: the largest score, the sum of weights, then values.
fn begin_row(work: Work, i: u32, mine: Mine, lane: u32) -> Target {
    let head = work.run * p.kv_heads + p.first + work.kv_head;
    let start = (head * work.rows + work.row + i) * (p.value_dim + 2u);
    if lane == 0u {
        store_out(start, mine.largest);
        store_out(start + 1u, mine.sum);
    }
    return Target(start + 2u, 1.0);
}
