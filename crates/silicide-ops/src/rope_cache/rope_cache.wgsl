// Rotary embedding of queries and keys, as in `rope.wgsl`, and storage of keys and values, as in `cache_write.wgsl`.
// A workgroup has EACH items of one token: pairs and copied elements of its queries, then of its keys; then elements of its values. It
// decides once whether a later token has the same slot.
struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    table_offset: u32,
    slots_offset: u32,
    queries_offset: u32,
    keys_offset: u32,
    values_offset: u32,
    tokens: u32,
    key_capacity: u32,
    value_capacity: u32,
    // Slots from here on do not exist.
    key_limit: u32,
    value_limit: u32,
}
var<immediate> p: Params;

override WG: u32 = 256;
// Items of a workgroup.
override EACH: u32 = 1024;
// Workgroups that share the items of a token, heads of queries and of keys, elements and pairs of a head, and elements of a value: constants,
// so that items are not divided by parameters.
override CHUNKS: u32 = 1;
override HEADS: u32 = 1;
override KV_HEADS: u32 = 1;
override DIM: u32 = 2;
override PAIRS: u32 = 1;
override VALUES: u32 = 2;
// 1 if pairs are of two halves, 0 if of neighbours.
override HALVES: u32 = 0;

// 1 if a later token has the same slot.
var<workgroup> taken: atomic<u32>;

// Where the first element of an item lies in its head, and how far the second is from it.
fn place(item: u32) -> vec2<u32> {
    if item >= PAIRS {
        return vec2<u32>(item + PAIRS, 0u);
    }
    return select(vec2<u32>(2u * item, 1u), vec2<u32>(item, PAIRS), HALVES == 1u);
}

// The pair a, b turned by the angle of an item; what is passed on is turned by none.
fn turned(token: u32, item: u32, a: f32, b: f32) -> vec2<f32> {
    if item >= PAIRS {
        return vec2<f32>(a, a);
    }
    let turn = (token * PAIRS + item) * 2u;
    let c = load_table(turn);
    let s = load_table(turn + 1u);
    return vec2<f32>(a * c - b * s, b * c + a * s);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let number = linear_group(group, groups);
    let token = number / CHUNKS;
    if token >= p.tokens {
        return;
    }
    let pieces = DIM - PAIRS;
    let queries = HEADS * pieces;
    let keys = queries + KV_HEADS * pieces;
    let begin = number % CHUNKS * EACH;
    let end = min(begin + EACH, keys + KV_HEADS * VALUES);
    var slot = 0xffffffffu;
    if end > queries {
        slot = get_slots(token);
        if lane == 0u {
            atomicStore(&taken, 0u);
        }
        workgroupBarrier();
        for (var later = token + 1u + lane; later < p.tokens; later += WG) {
            if get_slots(later) == slot {
                atomicStore(&taken, 1u);
            }
        }
        workgroupBarrier();
        if atomicLoad(&taken) == 1u {
            slot = 0xffffffffu;
        }
    }
    for (var i = begin + lane; i < end; i += WG) {
        if i < queries {
            let inside = place(i % pieces);
            let at = (token * HEADS + i / pieces) * DIM + inside.x;
            let y = turned(token, i % pieces, load_q(at), load_q(at + inside.y));
            store_queries(at, y.x);
            if inside.y != 0u {
                store_queries(at + inside.y, y.y);
            }
        } else if i < keys {
            if slot < p.key_limit {
                let head = (i - queries) / pieces;
                let item = (i - queries) % pieces;
                let inside = place(item);
                let from_here = (token * KV_HEADS + head) * DIM + inside.x;
                let y = turned(token, item, load_k(from_here), load_k(from_here + inside.y));
                let to = (head * p.key_capacity + slot) * DIM + inside.x;
                store_keys(to, y.x);
                if inside.y != 0u {
                    store_keys(to + inside.y, y.y);
                }
            }
        } else if slot < p.value_limit {
            let head = (i - keys) / VALUES;
            let at = (i - keys) % VALUES;
            let to = (head * p.value_capacity + slot) * VALUES + at;
            store_values(to, load_v((token * KV_HEADS + head) * VALUES + at));
        }
    }
}
