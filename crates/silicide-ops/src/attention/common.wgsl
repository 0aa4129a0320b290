// Parameters and the work of a workgroup, for all kernels of attention.
struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    work_offset: u32,
    sinks_offset: u32,
    out_offset: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    value_dim: u32,
    capacity: u32,
    // Items of the work list; 0 where a workgroup takes all keys of its queries.
    items: u32,
    scale: f32,
    // 0 for none.
    softcap: f32,
    // 2: with sinks.
    flags: u32,
    // The heads of keys that this launch sees.
    first: u32,
    count: u32,
}
var<immediate> p: Params;
override WG: u32 = 64;
// Elements of a head of keys, and of values.
override DIM: u32 = 64;
override VALUES: u32 = 64;
// Keys of a block.
const BLOCK: u32 = 128u;

// The work of a workgroup: the first of its rows, of `rows` rows from token `token` on, a head of keys as the launch counts them, an item,
// and the positions of the item.
struct Work {
    row: u32,
    rows: u32,
    token: u32,
    kv_head: u32,
    item: u32,
    begin: u32,
    end: u32,
}

// Positions below this are visible.
const MOST_POSITIONS: u32 = 1u << 30u;
// Queries and blocks of an item at most.
const ITEM_QUERIES: u32 = 16u;
const ITEM_BLOCKS: u32 = 8u;

// Heads of queries that share a head of keys.
fn shared_by() -> u32 {
    return p.heads / p.kv_heads;
}

// The words of an entry of the work list.
fn entry(i: u32) -> vec4<u32> {
    return vec4<u32>(get_work(i * 4u), get_work(i * 4u + 1u), get_work(i * 4u + 2u), get_work(i * 4u + 3u));
}

// The positions that a row sees, of its token's entry: the first, and the end.
fn visible_to(work: Work, i: u32) -> vec2<u32> {
    let row = min(work.row + i, work.rows - 1u);
    let bounds = entry(work.token + row / shared_by());
    let end = min(bounds.y, MOST_POSITIONS);
    return vec2<u32>(max(bounds.x, end - min(end, p.capacity)), end);
}

fn capped(score: f32) -> f32 {
    return select(p.softcap * tanh_of(score / p.softcap), score, is_nan(score));
}

// The row of q and y that a row of a head of keys is.
fn query_row(work: Work, i: u32) -> u32 {
    let row = min(work.row + i, work.rows - 1u);
    return (work.token + row / shared_by()) * p.heads + (p.first + work.kv_head) * shared_by() + row % shared_by();
}

fn query(work: Work, i: u32, d: u32) -> f32 {
    return load_q(query_row(work, i) * DIM + d);
}
