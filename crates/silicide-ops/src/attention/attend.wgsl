// y = softmax(scale * q k^T, masked) v, with a running maximum: a workgroup has four queries that share a head of keys, and the keys of an
// item of the work list, or all. It takes WG keys at a time:
//
//   scores   an invocation per key, eight elements at a time
//   maximum  of eight keys by each of eight invocations, then of those by all
//   values   an invocation per eight elements; teams of VALUES / 8 invocations take turns with the keys, and are added at the end
//
// Rows of a head of keys are tokens, then heads of the group. The kernel adds `begin_row`: `begin_part` or `begin_whole`.
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
// Eight times eight.
const WG: u32 = 64u;
// Elements of a head of keys, and of values.
override DIM: u32 = 64;
override VALUES: u32 = 64;
// Invocations of a team, and teams.
override TEAM: u32 = 8;
override TEAMS: u32 = 8;

var<workgroup> queries: array<vec4<f32>, DIM>;
var<workgroup> scores: array<vec4<f32>, WG>;
var<workgroup> peaks: array<vec4<f32>, 8>;
// Values of teams, to be added.
var<workgroup> shares: array<f32, 512>;

// The work of a workgroup: the first of its four rows, of `rows` rows from token `token` on, a head of keys as the launch counts them, an item.
struct Work {
    row: u32,
    rows: u32,
    token: u32,
    kv_head: u32,
    item: u32,
}

// Positions below this are visible.
const MOST_POSITIONS: u32 = 1u << 30u;
// Queries and blocks of an item at most, and keys of a block.
const ITEM_QUERIES: u32 = 16u;
const ITEM_BLOCKS: u32 = 8u;
const BLOCK: u32 = 128u;

// The words of an entry of the work list.
fn entry(i: u32) -> vec4<u32> {
    return vec4<u32>(get_work(i * 4u), get_work(i * 4u + 1u), get_work(i * 4u + 2u), get_work(i * 4u + 3u));
}

// The positions that a row sees, of its token's entry: the first, and the end.
fn visible_to(work: Work, i: u32) -> vec2<u32> {
    let row = min(work.row + i, work.rows - 1u);
    let bounds = entry(work.token + row / (p.heads / p.kv_heads));
    let end = min(bounds.y, MOST_POSITIONS);
    return vec2<u32>(max(bounds.x, end - min(end, p.capacity)), end);
}

// What four queries have seen.
struct Seen {
    largest: vec4<f32>,
    sum: vec4<f32>,
}

fn weights(d: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(weight(d.x), weight(d.y), weight(d.z), weight(d.w));
}

fn capped(score: f32) -> f32 {
    if p.softcap == 0.0 || is_nan(score) {
        return score;
    }
    return p.softcap * tanh_of(score / p.softcap);
}

// The row of q and y that a row of a head of keys is.
fn query_row(work: Work, i: u32) -> u32 {
    let group = p.heads / p.kv_heads;
    let row = min(work.row + i, work.rows - 1u);
    return (work.token + row / group) * p.heads + (p.first + work.kv_head) * group + row % group;
}

fn query(work: Work, i: u32, d: u32) -> f32 {
    return load_q(query_row(work, i) * DIM + d);
}

// What one query has seen.
struct Mine {
    largest: f32,
    sum: f32,
}

// Where a query's values go, and what they are multiplied by.
struct Target {
    start: u32,
    factor: f32,
}

// An item leaves a part for each of its rows, to be joined: the largest score, the sum of weights, then values.
fn begin_part(work: Work, i: u32, mine: Mine, lane: u32) -> Target {
    let head = work.item * p.kv_heads + p.first + work.kv_head;
    let rows = min(p.tokens, ITEM_QUERIES) * (p.heads / p.kv_heads);
    let start = (head * rows + work.row + i) * (VALUES + 2u);
    if lane == 0u {
        store_out(start, mine.largest);
        store_out(start + 1u, mine.sum);
    }
    return Target(start + 2u, 1.0);
}

// All keys were seen: the results are whole but for the sink.
fn begin_whole(work: Work, i: u32, mine: Mine, lane: u32) -> Target {
    let row = query_row(work, i);
    var largest = mine.largest;
    var sum = mine.sum;
    if (p.flags & 2u) == 2u {
        let sink = load_sinks(row % p.heads);
        largest = larger(largest, sink);
        sum = sum * weight(mine.largest - largest) + weight(sink - largest);
    }
    // Not `sum != 0`, which is false of NaN too.
    let factor = select(weight(mine.largest - largest) / sum, 0.0, sum == 0.0);
    return Target(row * VALUES, factor);
}

// Adds the teams' values of row `i`, and stores them.
fn finish_row(work: Work, i: u32, mine: Mine, values: mat2x4<f32>, lane: u32) {
    workgroupBarrier();
    if lane < TEAM * TEAMS {
        let at = lane / TEAM * VALUES + lane % TEAM * 8u;
        for (var c = 0u; c < 4u; c++) {
            shares[at + c] = values[0][c];
            shares[at + 4u + c] = values[1][c];
        }
    }
    workgroupBarrier();
    if work.row + i >= work.rows {
        return;
    }
    let place = begin_row(work, i, mine, lane);
    for (var d = lane; d < VALUES; d += WG) {
        var value = shares[d];
        for (var team = 1u; team < TEAMS; team++) {
            value += shares[team * VALUES + d];
        }
        store_out(place.start + d, value * place.factor);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let shared_by = p.heads / p.kv_heads;
    let is_part = p.items > 0u;
    let most = select(p.tokens, min(p.tokens, ITEM_QUERIES), is_part);
    let chunks = (most * shared_by + 3u) / 4u;
    let number = linear_group(group, groups);
    let items = max(p.items, 1u);
    let item = number / chunks % items;
    var words = vec4<u32>(0u, p.tokens, 0u, 0u);
    if is_part {
        words = entry(p.tokens + item);
    }
    let token = min(words.x, p.tokens);
    let tokens = min(min(words.y, most), p.tokens - token);
    let work = Work(number % chunks * 4u, tokens * shared_by, token, number / chunks / items, item);
    if work.kv_head >= p.count || work.row >= work.rows {
        return;
    }
    let row0 = visible_to(work, 0u);
    let row1 = visible_to(work, 1u);
    let row2 = visible_to(work, 2u);
    let row3 = visible_to(work, 3u);
    let firsts = vec4<u32>(row0.x, row1.x, row2.x, row3.x);
    let ends = vec4<u32>(row0.y, row1.y, row2.y, row3.y);
    // Rows that see nothing have no part in the range.
    let opens = select(vec4<u32>(MOST_POSITIONS), firsts, firsts < ends);
    var end = max(max(ends.x, ends.y), max(ends.z, ends.w));
    var begin = max(min(min(opens.x, opens.y), min(opens.z, opens.w)), end - min(end, p.capacity));
    if is_part {
        let block = min(words.z, MOST_POSITIONS / BLOCK);
        begin = max(begin, block * BLOCK);
        end = min(end, (block + min(words.w, ITEM_BLOCKS)) * BLOCK);
    }

    for (var d = lane; d < DIM; d += WG) {
        queries[d] = vec4<f32>(query(work, 0u, d), query(work, 1u, d), query(work, 2u, d), query(work, 3u, d));
    }
    workgroupBarrier();
    let team = lane / TEAM;
    let column = lane % TEAM * 8u;
    let head = work.kv_head * p.capacity;
    var seen = Seen(vec4<f32>(LOWEST), vec4<f32>());
    var values0 = mat2x4<f32>();
    var values1 = mat2x4<f32>();
    var values2 = mat2x4<f32>();
    var values3 = mat2x4<f32>();
    for (var at = begin; at < end; at += WG) {
        // A range is at most the capacity long, so it passes the end of the ring once.
        let first = at % p.capacity;
        let count = min(end - at, WG);
        let position = at + lane;
        var score = vec4<f32>();
        var visible = vec4<bool>(false);
        if lane < count {
            let slot = first + lane;
            let base = (head + select(slot, slot - p.capacity, slot >= p.capacity)) * DIM;
            for (var d = 0u; d < DIM; d += 8u) {
                let keys = eight_k(base + d);
                score += queries[d] * keys[0].x + queries[d + 1u] * keys[0].y
                    + queries[d + 2u] * keys[0].z + queries[d + 3u] * keys[0].w;
                score += queries[d + 4u] * keys[1].x + queries[d + 5u] * keys[1].y
                    + queries[d + 6u] * keys[1].z + queries[d + 7u] * keys[1].w;
            }
            score *= p.scale;
            score = vec4<f32>(capped(score.x), capped(score.y), capped(score.z), capped(score.w));
            visible = (vec4<u32>(position) >= firsts) & (vec4<u32>(position) < ends);
        }
        scores[lane] = select(vec4<f32>(LOWEST), score, visible);
        workgroupBarrier();
        if lane < 8u {
            var peak = scores[lane * 8u];
            for (var key = 1u; key < 8u; key++) {
                peak = max(peak, scores[lane * 8u + key]);
            }
            peaks[lane] = peak;
        }
        workgroupBarrier();
        // Whatever this is of a score that is NaN: the weight of that key is NaN, and so is the sum.
        var largest = seen.largest;
        for (var part = 0u; part < 8u; part++) {
            largest = max(largest, peaks[part]);
        }
        scores[lane] = select(vec4<f32>(), weights(score - largest), visible);
        workgroupBarrier();
        let kept = weights(seen.largest - largest);
        seen = Seen(largest, seen.sum * kept);
        values0 *= kept.x;
        values1 *= kept.y;
        values2 *= kept.z;
        values3 *= kept.w;
        // Values that a row does not see may be NaN, which a weight of 0 would not remove.
        let is_mixed = any(vec4<u32>(at) < firsts) || any(vec4<u32>(at + count) > ends);
        if team < TEAMS {
            for (var key = team; key < count; key += TEAMS) {
                let slot = first + key;
                let row = head + select(slot, slot - p.capacity, slot >= p.capacity);
                let values = eight_v(row * VALUES + column);
                let share = scores[key];
                seen.sum += share;
                if is_mixed {
                    let sees = (vec4<u32>(at + key) >= firsts) & (vec4<u32>(at + key) < ends);
                    if sees.x { values0 += values * share.x; }
                    if sees.y { values1 += values * share.y; }
                    if sees.z { values2 += values * share.z; }
                    if sees.w { values3 += values * share.w; }
                } else {
                    values0 += values * share.x;
                    values1 += values * share.y;
                    values2 += values * share.z;
                    values3 += values * share.w;
                }
            }
        }
        workgroupBarrier();
    }
    // The sums of teams.
    scores[lane] = seen.sum;
    workgroupBarrier();
    var sum = scores[0];
    for (var other = 1u; other < TEAMS; other++) {
        sum += scores[other * TEAM];
    }
    finish_row(work, 0u, Mine(seen.largest.x, sum.x), values0, lane);
    finish_row(work, 1u, Mine(seen.largest.y, sum.y), values1, lane);
    finish_row(work, 2u, Mine(seen.largest.z, sum.z), values2, lane);
    finish_row(work, 3u, Mine(seen.largest.w, sum.w), values3, lane);
}
