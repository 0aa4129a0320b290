// Rotary embedding of queries and keys, as in `rope.wgsl`, and storage of keys and values, as in `cache_write.wgsl`.
// Elements of the launch: pairs and copied elements of each head of queries, then of keys; then elements of values.
struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    table_offset: u32,
    slots_offset: u32,
    queries_offset: u32,
    keys_offset: u32,
    values_offset: u32,
    count: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    value_dim: u32,
    pairs: u32,
    // 1 if pairs are of two halves, 0 if of neighbours.
    halves: u32,
    key_capacity: u32,
    value_capacity: u32,
    // Slots from here on do not exist.
    key_limit: u32,
    value_limit: u32,
}
var<immediate> p: Params;

// Whether a token is stored: its slot exists, and no later token has the same.
fn is_stored(token: u32, limit: u32) -> bool {
    let slot = get_slots(token);
    var stored = slot < limit;
    for (var later = token + 1u; later < p.tokens; later++) {
        stored = stored && get_slots(later) != slot;
    }
    return stored;
}

// Where the first element of an item lies in its head, and how far the second is from it.
fn place(item: u32) -> vec2<u32> {
    if item >= p.pairs {
        return vec2<u32>(item + p.pairs, 0u);
    }
    return select(vec2<u32>(2u * item, 1u), vec2<u32>(item, p.pairs), p.halves == 1u);
}

// The pair a, b turned by the angle of an item; what is passed on is turned by none.
fn turned(token: u32, item: u32, a: f32, b: f32) -> vec2<f32> {
    if item >= p.pairs {
        return vec2<f32>(a, a);
    }
    let turn = (token * p.pairs + item) * 2u;
    let c = load_table(turn);
    let s = load_table(turn + 1u);
    return vec2<f32>(a * c - b * s, b * c + a * s);
}

fn element(i: u32) {
    let items = p.dim - p.pairs;
    let queries = p.tokens * p.heads * items;
    let keys = p.tokens * p.kv_heads * items;
    if i < queries {
        let row = i / items;
        let item = i % items;
        let at = place(item) + vec2<u32>(row * p.dim, 0u);
        let y = turned(row / p.heads, item, load_q(at.x), load_q(at.x + at.y));
        store_queries(at.x, y.x);
        if at.y != 0u {
            store_queries(at.x + at.y, y.y);
        }
        return;
    }
    if i < queries + keys {
        let row = (i - queries) / items;
        let item = (i - queries) % items;
        let token = row / p.kv_heads;
        if !is_stored(token, p.key_limit) {
            return;
        }
        let inside = place(item);
        let from_here = row * p.dim + inside.x;
        let y = turned(token, item, load_k(from_here), load_k(from_here + inside.y));
        let to = (row % p.kv_heads * p.key_capacity + get_slots(token)) * p.dim + inside.x;
        store_keys(to, y.x);
        if inside.y != 0u {
            store_keys(to + inside.y, y.y);
        }
        return;
    }
    let at = i - queries - keys;
    let row = at / p.value_dim;
    let token = row / p.kv_heads;
    if is_stored(token, p.value_limit) {
        let head = row % p.kv_heads;
        store_values((head * p.value_capacity + get_slots(token)) * p.value_dim + at % p.value_dim, load_v(at));
    }
}
