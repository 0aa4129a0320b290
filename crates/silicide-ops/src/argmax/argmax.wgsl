// index = argmax(x), one team per row. Elements are compared as integers: exact, and NaN has its place.
struct Params {
    x_offset: u32,
    index_offset: u32,
    rows: u32,
    k: u32,
    team: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;

// Key and index of the best element each invocation has seen.
var<workgroup> best: array<vec2<u32>, WG>;

// Ordered as the elements are, both zeros alike, every NaN at the top; never 0.
fn key(v: f32) -> u32 {
    let bits = bitcast<u32>(v);
    let size = bits & 0x7fffffffu;
    if size > 0x7f800000u {
        return 0xffffffffu;
    }
    if size == 0u {
        return 0x80000000u;
    }
    return select(bits | 0x80000000u, ~bits, bits > 0x80000000u);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = place(group, groups, lane);
    var mine = vec2<u32>(0u, 0u);
    for (var i = at.member; i < at.k; i += p.team) {
        let other = key(load_x(at.base + i));
        if other > mine.x {
            mine = vec2<u32>(other, i);
        }
    }
    best[lane] = mine;
    workgroupBarrier();
    for (var width = p.team / 2u; width > 0u; width = width / 2u) {
        if at.member < width {
            let other = best[lane + width];
            if other.x > mine.x || (other.x == mine.x && other.y < mine.y) {
                mine = other;
                best[lane] = mine;
            }
        }
        workgroupBarrier();
    }
    if at.member == 0u && at.k > 0u {
        put_index(at.row, mine.y);
    }
}
