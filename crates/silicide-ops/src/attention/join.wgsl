// Joins the parts that `begin_part` left for items: a workgroup per query and head. With m = max m_i over the items of the query,
// y = sum of values_i * exp(m_i - m) / sum of sum_i * exp(m_i - m). A query whose items do not have it is NaN.
struct Params {
    parts_offset: u32,
    work_offset: u32,
    sinks_offset: u32,
    y_offset: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    value_dim: u32,
    items: u32,
    flags: u32,
    // NaN.
    missing: f32,
}
var<immediate> p: Params;
override WG: u32 = 64;

const ITEM_QUERIES: u32 = 16u;

// The first word of the part of an item, for a head of a token; whether the item has the token.
struct PartOf {
    start: u32,
    is_there: bool,
}

fn part_of(item: u32, token: u32, head: u32) -> PartOf {
    let shared_by = p.heads / p.kv_heads;
    let entry = (p.tokens + item) * 4u;
    let first = min(get_work(entry), p.tokens);
    let count = min(min(get_work(entry + 1u), ITEM_QUERIES), p.tokens - first);
    let is_there = token >= first && token - first < count;
    let row = select(0u, token - first, is_there) * shared_by + head % shared_by;
    let rows = min(p.tokens, ITEM_QUERIES) * shared_by;
    let start = ((item * p.kv_heads + head / shared_by) * rows + row) * (p.value_dim + 2u);
    return PartOf(start, is_there);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = linear_group(group, groups);
    if row >= p.tokens * p.heads {
        return;
    }
    let token = row / p.heads;
    let head = row % p.heads;
    let first = min(get_work(token * 4u + 2u), p.items);
    let end = first + min(get_work(token * 4u + 3u), p.items - first);
    var is_there = true;
    var largest = LOWEST;
    if (p.flags & 2u) == 2u {
        largest = larger(largest, load_sinks(head));
    }
    for (var item = first; item < end; item++) {
        let part = part_of(item, token, head);
        largest = larger(largest, load_parts(part.start));
        is_there = is_there && part.is_there;
    }
    var sum = 0.0;
    if (p.flags & 2u) == 2u {
        sum = weight(load_sinks(head) - largest);
    }
    for (var item = first; item < end; item++) {
        let part = part_of(item, token, head).start;
        sum += load_parts(part + 1u) * weight(load_parts(part) - largest);
    }
    // Not `sum != 0`, which is false of NaN too.
    let factor = select(1.0 / sum, 0.0, sum == 0.0);
    for (var d = lane; d < p.value_dim; d += WG) {
        var value = 0.0;
        for (var item = first; item < end; item++) {
            let part = part_of(item, token, head).start;
            value += load_parts(part + 2u + d) * weight(load_parts(part) - largest);
        }
        store_y(row * p.value_dim + d, select(p.missing, value * factor, is_there));
    }
}
