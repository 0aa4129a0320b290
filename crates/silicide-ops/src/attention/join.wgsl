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
const WG: u32 = 64u;
// Elements of the values for each invocation, rounded up.
override COLUMNS: u32 = 1;

// The largest score of some items; of WG items at a time, where their values lie, their factors, and their sums times these.
var<workgroup> peaks: array<f32, WG>;
var<workgroup> starts: array<u32, WG>;
var<workgroup> factors: array<f32, WG>;
var<workgroup> sums: array<f32, WG>;
// 1 if an item does not have the query.
var<workgroup> lacks: atomic<u32>;

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
    if lane == 0u {
        atomicStore(&lacks, 0u);
    }
    workgroupBarrier();
    var largest = LOWEST;
    for (var item = first + lane; item < end; item += WG) {
        let part = part_of(item, token, head);
        largest = larger(largest, load_parts(part.start));
        is_there = is_there && part.is_there;
    }
    peaks[lane] = largest;
    if !is_there {
        atomicStore(&lacks, 1u);
    }
    workgroupBarrier();
    for (var other = 0u; other < WG; other++) {
        largest = larger(largest, peaks[other]);
    }
    var sum = 0.0;
    if (p.flags & 2u) == 2u {
        largest = larger(largest, load_sinks(head));
        sum = weight(load_sinks(head) - largest);
    }
    // At most 512 elements of a value.
    var values: array<f32, 8>;
    for (var at = first; at < end; at += WG) {
        workgroupBarrier();
        if at + lane < end {
            let part = part_of(at + lane, token, head).start;
            starts[lane] = part + 2u;
            factors[lane] = weight(load_parts(part) - largest);
            sums[lane] = load_parts(part + 1u) * factors[lane];
        }
        workgroupBarrier();
        let count = min(end - at, WG);
        for (var i = 0u; i < count; i++) {
            sum += sums[i];
        }
        for (var c = 0u; c < COLUMNS; c++) {
            let d = c * WG + lane;
            if d < p.value_dim {
                for (var i = 0u; i < count; i++) {
                    values[c] += load_parts(starts[i] + d) * factors[i];
                }
            }
        }
    }
    // Not `sum != 0`, which is false of NaN too.
    let factor = select(1.0 / sum, 0.0, sum == 0.0);
    let is_whole = atomicLoad(&lacks) == 0u;
    for (var c = 0u; c < COLUMNS; c++) {
        let d = c * WG + lane;
        if d < p.value_dim {
            store_y(row * p.value_dim + d, select(p.missing, values[c] * factor, is_whole));
        }
    }
}
