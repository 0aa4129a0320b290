// Groups pairs by expert and cuts the groups in strips, in one workgroup. Pairs whose id no expert has are a
// last group. Words of the result:
//
//   0              number of strips
//   1 + 3 * s ..   of strip s: its expert, its first place, its number of pairs
//   1 + 3 * most   pairs by place
struct Params {
    ids_offset: u32,
    groups_offset: u32,
    pairs: u32,
    experts: u32,
    most: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;
// More than there are experts.
override ROOM: u32 = 1024;

// The most pairs of a strip.
override STRIP: u32 = 32;

// The pairs of each group, then where its next pair goes.
var<workgroup> next: array<u32, ROOM>;

fn cut() {
    var first = 0u;
    var made = 0u;
    for (var expert = 0u; expert <= p.experts; expert++) {
        let pairs = next[expert];
        next[expert] = first;
        for (var start = 0u; start < pairs; start += STRIP) {
            let at = 1u + 3u * made;
            put_groups(at, expert);
            put_groups(at + 1u, first + start);
            put_groups(at + 2u, min(STRIP, pairs - start));
            made++;
        }
        first += pairs;
    }
    put_groups(0u, made);
}

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    // An invocation goes through all pairs for the groups that it has, so that those of a group stay in order.
    for (var group = lane; group <= p.experts; group += WG) {
        var pairs = 0u;
        for (var pair = 0u; pair < p.pairs; pair++) {
            if min(get_ids(pair), p.experts) == group {
                pairs++;
            }
        }
        next[group] = pairs;
    }
    workgroupBarrier();
    if lane == 0u {
        cut();
    }
    workgroupBarrier();
    for (var group = lane; group <= p.experts; group += WG) {
        var place = 1u + 3u * p.most + next[group];
        for (var pair = 0u; pair < p.pairs; pair++) {
            if min(get_ids(pair), p.experts) == group {
                put_groups(place, pair);
                place++;
            }
        }
    }
}
