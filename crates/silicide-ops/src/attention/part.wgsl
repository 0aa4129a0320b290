// An item leaves a part for each of its rows, to be joined: the largest score, the sum of weights, then values. The grid has a workgroup for
// some rows of an item, a head of keys and an item.
fn work_of(group: vec3<u32>, groups: vec3<u32>) -> Work {
    let item = min(group.z, p.items - 1u);
    let words = entry(p.tokens + item);
    let token = min(words.x, p.tokens);
    let tokens = min(min(words.y, ITEM_QUERIES), p.tokens - token);
    let block = min(words.z, MOST_POSITIONS / BLOCK);
    let end = (block + min(words.w, ITEM_BLOCKS)) * BLOCK;
    return Work(group.x * ROWS, tokens * shared_by(), token, group.y, item, block * BLOCK, end);
}

fn part_start(work: Work, i: u32) -> u32 {
    let head = work.item * p.kv_heads + p.first + work.kv_head;
    return (head * min(p.tokens, ITEM_QUERIES) * shared_by() + work.row + i) * (VALUES + 2u);
}

fn store_seen(work: Work, i: u32, largest: f32, sum: f32) {
    if work.row + i < work.rows {
        store_out(part_start(work, i), largest);
        store_out(part_start(work, i) + 1u, sum);
    }
}

fn begin_rows(work: Work, largest: Rows, sum: Rows, lane: u32) -> Rows {
    if lane == 0u {
        store_seen_rows(work, largest, sum);
    }
    return Rows(1.0);
}

fn store_row(work: Work, i: u32, d: u32, value: f32) {
    if work.row + i < work.rows {
        store_out(part_start(work, i) + 2u + d, value);
    }
}
