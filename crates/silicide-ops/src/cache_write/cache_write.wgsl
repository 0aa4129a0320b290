// cache[head][slots[token]] = rows[token][head]: a workgroup stores one token, unless its slot does not exist or a later
// token has the same slot. `put_item(to, source)` stores ITEM elements; both count items.
struct Params {
    rows_offset: u32,
    slots_offset: u32,
    cache_offset: u32,
    tokens: u32,
    heads: u32,
    dim: u32,
    capacity: u32,
    // Slots from here on do not exist.
    limit: u32,
    // The heads that this launch sees.
    first: u32,
    count: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

// 1 if a later token has the same slot.
var<workgroup> taken: atomic<u32>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let token = linear_group(group, groups);
    if token >= p.tokens {
        return;
    }
    let slot = get_slots(token);
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
    if slot >= p.limit || atomicLoad(&taken) == 1u {
        return;
    }
    let items = p.dim / ITEM;
    for (var i = lane; i < p.count * items; i += WG) {
        let head = i / items;
        let item = i % items;
        let row = (token * p.heads + p.first + head) * items;
        put_item((head * p.capacity + slot) * items + item, row + item);
    }
}
