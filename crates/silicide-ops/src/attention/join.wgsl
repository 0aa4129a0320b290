// Joins the parts that `begin_part` left for runs of keys: a workgroup per query and head. With m = max m_r over runs,
// y = sum of values_r * exp(m_r - m) / sum of sum_r * exp(m_r - m).
struct Params {
    parts_offset: u32,
    start_offset: u32,
    sinks_offset: u32,
    y_offset: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    value_dim: u32,
    capacity: u32,
    latest: u32,
    window: u32,
    flags: u32,
    keys: u32,
}
var<immediate> p: Params;
override WG: u32 = 64;

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
    let start = min(get_start(0u), p.latest);
    let total = start + p.tokens;
    var begin = total - min(total, p.capacity);
    if p.window > 0u {
        begin = max(begin, start + 1u - min(start + 1u, p.window));
    }
    // Every key that a query sees lies before the end of the last query.
    let runs = (total - begin + p.keys - 1u) / p.keys;
    let shared_by = p.heads / p.kv_heads;
    let token = row / p.heads;
    let head = row % p.heads;
    let rows = p.tokens * shared_by;
    let mine = head / shared_by * rows + token * shared_by + head % shared_by;
    let words = p.value_dim + 2u;
    var largest = LOWEST;
    if (p.flags & 2u) == 2u {
        largest = larger(largest, load_sinks(head));
    }
    for (var run = 0u; run < runs; run++) {
        largest = larger(largest, load_parts((run * p.kv_heads * rows + mine) * words));
    }
    var sum = 0.0;
    if (p.flags & 2u) == 2u {
        sum = weight(load_sinks(head) - largest);
    }
    for (var run = 0u; run < runs; run++) {
        let part = (run * p.kv_heads * rows + mine) * words;
        sum += load_parts(part + 1u) * weight(load_parts(part) - largest);
    }
    // Not `sum != 0`, which is false of NaN too.
    let factor = select(1.0 / sum, 0.0, sum == 0.0);
    for (var d = lane; d < p.value_dim; d += WG) {
        var value = 0.0;
        for (var run = 0u; run < runs; run++) {
            let part = (run * p.kv_heads * rows + mine) * words;
            value += load_parts(part + 2u + d) * weight(load_parts(part) - largest);
        }
        store_y(row * p.value_dim + d, value * factor);
    }
}
