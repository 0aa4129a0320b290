// y = softmax(scale * q k^T, masked) v, with a running maximum: a workgroup has four queries that share a head of keys, and a run
// of keys. It takes WG keys at a time: an invocation per key for scores, then an invocation per few elements of the values.
// Rows of a head of keys are tokens, then heads of the group. The kernel adds `begin_row`: `begin_part` or `begin_whole`.
struct Params {
    q_offset: u32,
    k_offset: u32,
    v_offset: u32,
    start_offset: u32,
    sinks_offset: u32,
    out_offset: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    value_dim: u32,
    capacity: u32,
    // The largest start.
    latest: u32,
    scale: f32,
    // 0 for none.
    softcap: f32,
    // 0 for none.
    window: u32,
    // 1: causal, 2: with sinks.
    flags: u32,
    // The heads of keys that this launch sees.
    first: u32,
    count: u32,
    // Keys of a run, and runs; all keys are one run where a workgroup need not share its queries with others.
    keys: u32,
    runs: u32,
}
var<immediate> p: Params;
override WG: u32 = 64;
// Elements of a head of keys.
override DIM: u32 = 64;
// Elements of the values for each invocation, rounded up.
override COLUMNS: u32 = 1;

var<workgroup> queries: array<vec4<f32>, DIM>;
var<workgroup> scores: array<vec4<f32>, WG>;

// The work of a workgroup: the first of its four rows, a head of keys as the launch counts them, and a range of keys.
struct Work {
    row: u32,
    rows: u32,
    kv_head: u32,
    run: u32,
}

// What four queries have seen.
struct Seen {
    largest: vec4<f32>,
    sum: vec4<f32>,
}

fn weights(d: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(weight(d.x), weight(d.y), weight(d.z), weight(d.w));
}

fn largest_of(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(larger(a.x, b.x), larger(a.y, b.y), larger(a.z, b.z), larger(a.w, b.w));
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
    return row / group * p.heads + (p.first + work.kv_head) * group + row % group;
}

fn query(work: Work, i: u32, d: u32) -> f32 {
    return load_q(query_row(work, i) * p.dim + d);
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

// A run leaves parts, to be joined: the largest score, the sum of weights, then values.
fn begin_part(work: Work, i: u32, mine: Mine, lane: u32) -> Target {
    let head = work.run * p.kv_heads + p.first + work.kv_head;
    let start = (head * work.rows + work.row + i) * (p.value_dim + 2u);
    if lane == 0u {
        store_out(start, mine.largest);
        store_out(start + 1u, mine.sum);
    }
    return Target(start + 2u, 1.0);
}

// All keys were one run: the results are whole but for the sink.
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
    return Target(row * p.value_dim, factor);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let shared_by = p.heads / p.kv_heads;
    let rows = p.tokens * shared_by;
    let chunks = (rows + 3u) / 4u;
    let number = linear_group(group, groups);
    let work = Work(number % chunks * 4u, rows, number / chunks / p.runs, number / chunks % p.runs);
    if work.kv_head >= p.count {
        return;
    }
    let start = min(get_start(0u), p.latest);
    let total = start + p.tokens;
    let rows_at = min(vec4<u32>(work.row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(rows - 1u));
    let positions = vec4<u32>(start) + rows_at / shared_by;
    let causal = (p.flags & 1u) == 1u;
    // Runs are of what all queries see between them, so that every workgroup cuts them in the same places.
    let shared_first = select(positions.x, start, p.runs > 1u);
    let shared_last = select(positions.w, total - 1u, p.runs > 1u);
    var begin = total - min(total, p.capacity);
    if p.window > 0u {
        begin = max(begin, shared_first + 1u - min(shared_first + 1u, p.window));
    }
    let closes = select(total, shared_last + 1u, causal);
    begin += work.run * p.keys;
    let end = min(begin + p.keys, closes);

    for (var d = lane; d < p.dim; d += WG) {
        queries[d] = vec4<f32>(query(work, 0u, d), query(work, 1u, d), query(work, 2u, d), query(work, 3u, d));
    }
    workgroupBarrier();
    var totals: array<vec4<f32>, 8>;
    for (var c = 0u; c < COLUMNS; c++) {
        totals[c] = vec4<f32>();
    }
    var seen = Seen(vec4<f32>(LOWEST), vec4<f32>());
    for (var at = begin; at < end; at += WG) {
        let position = at + lane;
        var score = vec4<f32>();
        var visible = vec4<bool>(false);
        if position < end {
            let base = (work.kv_head * p.capacity + position % p.capacity) * p.dim;
            for (var d = 0u; d < p.dim; d++) {
                score += queries[d] * load_k(base + d);
            }
            score *= p.scale;
            score = vec4<f32>(capped(score.x), capped(score.y), capped(score.z), capped(score.w));
            let later = vec4<u32>(position) > positions;
            let outside = vec4<u32>(position + p.window) <= positions;
            visible = !((later & vec4<bool>(causal)) | (outside & vec4<bool>(p.window > 0u)));
        }
        scores[lane] = select(vec4<f32>(LOWEST), score, visible);
        workgroupBarrier();
        let count = min(end - at, WG);
        var largest = seen.largest;
        for (var key = 0u; key < count; key++) {
            largest = largest_of(largest, scores[key]);
        }
        workgroupBarrier();
        scores[lane] = select(vec4<f32>(), weights(score - largest), visible);
        workgroupBarrier();
        let kept = weights(seen.largest - largest);
        seen = Seen(largest, seen.sum * kept);
        for (var c = 0u; c < COLUMNS; c++) {
            totals[c] *= kept;
        }
        for (var key = 0u; key < count; key++) {
            let shares = scores[key];
            seen.sum += shares;
            let base = (work.kv_head * p.capacity + (at + key) % p.capacity) * p.value_dim;
            for (var c = 0u; c < COLUMNS; c++) {
                let column = c * WG + lane;
                if column < p.value_dim {
                    totals[c] += shares * load_v(base + column);
                }
            }
        }
        workgroupBarrier();
    }
    let left = rows - work.row;
    for (var i = 0u; i < min(left, 4u); i++) {
        let place = begin_row(work, i, Mine(seen.largest[i], seen.sum[i]), lane);
        for (var c = 0u; c < COLUMNS; c++) {
            let column = c * WG + lane;
            if column < p.value_dim {
                store_out(place.start + column, totals[c][i] * place.factor);
            }
        }
    }
}
