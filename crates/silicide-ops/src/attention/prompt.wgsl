// y = softmax(scale * q k^T, masked) v for many queries, with a running maximum: a workgroup has ROWS queries that share a head of keys, and
// takes KEYS keys at a time. Invocation (team, lane) of TEAMS x LANES has eight rows, and four keys or COLUMNS vectors of the values:
//
//   scores   queries and keys pass through shared memory, DEPTH elements at a time; 128 products for 12 loads of 16 bytes
//   maximum  of each invocation's keys, then of a row by one invocation
//   values   TURN keys at a time in shared memory; 32 * COLUMNS products for 2 + COLUMNS loads
//
// Rows of a head of keys are tokens, then heads of the group. Weights of keys that a row does not see are -0.
//
// Shared memory, in vectors. One invocation stores all of a vector: a store to an element may write its neighbours too.
//
//   scores   key * PITCH + d / 4: elements of keys       KEYS * PITCH + row * PITCH + d / 4: elements of queries
//   values   key * ROWS / 4 + row / 4: weights of rows   KEYS * ROWS / 4 + key * COLUMNS * LANES + d / 4: elements of values
override TEAMS: u32 = 4;
override LANES: u32 = 16;
override ROWS: u32 = 32;
override KEYS: u32 = 64;
override DEPTH: u32 = 16;
// Keys whose values lie in shared memory at a time.
const TURN: u32 = 8u;
// Vectors from a row of DEPTH elements to the next: an odd number, so that neighbours lie in different banks.
override PITCH: u32 = DEPTH / 4u + 1u;
// Eights of elements of a row.
override PARTS: u32 = DEPTH / 8u;
// Rounds of all invocations that it takes to put eights of elements into shared memory: of queries, of keys and of
// values.
override QUERY_ROUNDS: u32 = (PARTS * ROWS + WG - 1u) / WG;
override KEY_ROUNDS: u32 = PARTS * KEYS / WG;
override VALUE_ROUNDS: u32 = (TURN / 8u * VALUES + WG - 1u) / WG;
// Vectors of the values for an invocation, at most four.
override COLUMNS: u32 = 1;
// The more of (KEYS + ROWS) * PITCH and KEYS * ROWS / 4 + TURN * COLUMNS * LANES.
override CELLS: u32 = 864;
override QUERIES_AT: u32 = KEYS * PITCH;
override VALUES_AT: u32 = KEYS * ROWS / 4u;

// -0: it adds nothing to the sum of weights, and no weight that is seen is it. Between here and where its bits are compared it is selected,
// stored and loaded, and no arithmetic may lose its sign; Metal compiles kernels without fast math (`Math::Exact`).
const UNSEEN: u32 = 0x80000000u;

var<workgroup> cells: array<vec4<f32>, CELLS>;
// Sums of the weights of an invocation's rows, for its keys: of four rows, then of the others.
var<workgroup> weight_sums: array<vec4<f32>, 2u * WG>;
// Of rows: the largest score, and what older sums are multiplied by.
var<workgroup> largest: array<f32, ROWS>;
var<workgroup> kept: array<f32, ROWS>;
// Where the keys of a block begin.
var<workgroup> key_starts: array<u32, KEYS>;
// Puts the weights of four rows for four keys.
fn put_weights(key: u32, rows: u32, by_key: mat4x4<f32>) {
    let at = key * (ROWS / 4u) + rows;
    cells[at] = by_key[0];
    cells[at + LANES * (ROWS / 4u)] = by_key[1];
    cells[at + 2u * LANES * (ROWS / 4u)] = by_key[2];
    cells[at + 3u * LANES * (ROWS / 4u)] = by_key[3];
}

// The largest scores, or what older sums are multiplied by, of four rows.
fn four_largest(row: u32) -> vec4<f32> {
    return vec4<f32>(largest[row], largest[row + 1u], largest[row + 2u], largest[row + 3u]);
}

fn four_kept(row: u32) -> vec4<f32> {
    return vec4<f32>(kept[row], kept[row + 1u], kept[row + 2u], kept[row + 3u]);
}

// The four numbers of each of eight rows.
struct Eight {
    a: mat4x4<f32>,
    b: mat4x4<f32>,
}

fn multiplied(sums: Eight, low: vec4<f32>, high: vec4<f32>, by: vec4<f32>) -> Eight {
    return Eight(
        mat4x4<f32>(
            sums.a[0] + low.x * by, sums.a[1] + low.y * by, sums.a[2] + low.z * by, sums.a[3] + low.w * by,
        ),
        mat4x4<f32>(
            sums.b[0] + high.x * by, sums.b[1] + high.y * by, sums.b[2] + high.z * by, sums.b[3] + high.w * by,
        ),
    );
}

// `by` times a weight, or nothing where a row does not see the key: it may be NaN, which a weight of 0 would not remove.
fn seen_part(share: f32, by: vec4<f32>) -> vec4<f32> {
    return select(share * by, vec4<f32>(), bitcast<u32>(share) == UNSEEN);
}

fn multiplied_seen(sums: Eight, low: vec4<f32>, high: vec4<f32>, by: vec4<f32>) -> Eight {
    return Eight(
        mat4x4<f32>(
            sums.a[0] + seen_part(low.x, by), sums.a[1] + seen_part(low.y, by),
            sums.a[2] + seen_part(low.z, by), sums.a[3] + seen_part(low.w, by),
        ),
        mat4x4<f32>(
            sums.b[0] + seen_part(high.x, by), sums.b[1] + seen_part(high.y, by),
            sums.b[2] + seen_part(high.z, by), sums.b[3] + seen_part(high.w, by),
        ),
    );
}

fn times(sums: mat4x4<f32>, by: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(sums[0] * by.x, sums[1] * by.y, sums[2] * by.z, sums[3] * by.w);
}

fn scaled(scores: mat4x4<f32>) -> mat4x4<f32> {
    let s = scores * p.scale;
    if CAPPED == 0u {
        return s;
    }
    return mat4x4<f32>(capped_four(s[0]), capped_four(s[1]), capped_four(s[2]), capped_four(s[3]));
}

fn largest_of_rows(m: mat4x4<f32>) -> vec4<f32> {
    return vec4<f32>(largest_in(m[0]), largest_in(m[1]), largest_in(m[2]), largest_in(m[3]));
}

// The sums of the weights of four rows, in columns of four keys.
fn sums_of_rows(by_key: mat4x4<f32>) -> vec4<f32> {
    return (by_key[0] + by_key[1]) + (by_key[2] + by_key[3]);
}

// Adds the products of four elements of a query with those of four keys.
fn scored_row(sums: vec4<f32>, query: vec4<f32>, keys: mat4x4<f32>) -> vec4<f32> {
    return sums + query.x * keys[0] + query.y * keys[1] + query.z * keys[2] + query.w * keys[3];
}

// Adds the products of the queries from `rows` on and the keys from `key` on, LANES apart, of the elements there in shared memory.
fn scored(sums: Eight, rows: u32, key: u32) -> Eight {
    let keys = transpose(mat4x4<f32>(
        cells[key], cells[key + LANES * PITCH], cells[key + 2u * LANES * PITCH], cells[key + 3u * LANES * PITCH],
    ));
    return Eight(
        mat4x4<f32>(
            scored_row(sums.a[0], cells[rows], keys), scored_row(sums.a[1], cells[rows + PITCH], keys),
            scored_row(sums.a[2], cells[rows + 2u * PITCH], keys), scored_row(sums.a[3], cells[rows + 3u * PITCH], keys),
        ),
        mat4x4<f32>(
            scored_row(sums.b[0], cells[rows + 4u * PITCH], keys), scored_row(sums.b[1], cells[rows + 5u * PITCH], keys),
            scored_row(sums.b[2], cells[rows + 6u * PITCH], keys), scored_row(sums.b[3], cells[rows + 7u * PITCH], keys),
        ),
    );
}

fn weigh(scores: mat4x4<f32>, most: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        weights(scores[0] - most.x), weights(scores[1] - most.y),
        weights(scores[2] - most.z), weights(scores[3] - most.w),
    );
}

// Scores or weights of a row for four keys, LANES apart, from position `at` on, with another number for those that it does not see.
fn only_seen(shares: vec4<f32>, row: u32, at: u32, end: u32, otherwise: f32) -> vec4<f32> {
    let positions = vec4<u32>(at, at + LANES, at + 2u * LANES, at + 3u * LANES);
    let last = min(bounds[row].y, end);
    return select(vec4<f32>(otherwise), shares, (positions >= vec4<u32>(bounds[row].x)) & (positions < vec4<u32>(last)));
}

fn only_seen_matrix(shares: mat4x4<f32>, row: u32, at: u32, end: u32, otherwise: f32) -> mat4x4<f32> {
    return mat4x4<f32>(
        only_seen(shares[0], row, at, end, otherwise), only_seen(shares[1], row + 1u, at, end, otherwise),
        only_seen(shares[2], row + 2u, at, end, otherwise), only_seen(shares[3], row + 3u, at, end, otherwise),
    );
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let work = work_of(group, groups);
    if work.kv_head >= p.count || work.row >= work.rows {
        return;
    }
    if lane < ROWS {
        largest[lane] = LOWEST;
    }
    let hull = find_bounds(work, lane);
    let team = lane / LANES;
    let column = lane % LANES;
    let row = team * 8u;
    let head = work.kv_head * p.capacity;
    var sums: array<Eight, 4>;
    for (var c = 0u; c < COLUMNS; c++) {
        sums[c] = Eight();
    }
    weight_sums[lane] = vec4<f32>();
    weight_sums[lane + WG] = vec4<f32>();
    var first = hull.x % p.capacity;
    for (var at = hull.x; at < hull.y; at += KEYS) {
        // A range is at most the capacity long, so it passes the end of the ring once.
        let count = min(hull.y - at, KEYS);
        let is_mixed = at < hull.z || at + KEYS > hull.w;
        for (var key = lane; key < KEYS; key += WG) {
            key_starts[key] = cache_row(head, first, key, count) * DIM;
        }
        workgroupBarrier();
        var scores = Eight();
        for (var d = 0u; d < DIM; d += DEPTH) {
            for (var round = 0u; round < KEY_ROUNDS; round++) {
                let i = lane + round * WG;
                let eight = eight_k(key_starts[i / PARTS] + i % PARTS * 8u + d);
                let to = i / PARTS * PITCH + i % PARTS * 2u;
                cells[to] = eight[0];
                cells[to + 1u] = eight[1];
            }
            for (var round = 0u; round < QUERY_ROUNDS; round++) {
                let i = lane + round * WG;
                if QUERY_ROUNDS * WG > PARTS * ROWS && i >= PARTS * ROWS {
                    break;
                }
                let eight = eight_q(query_starts[i / PARTS] + i % PARTS * 8u + d);
                let to = QUERIES_AT + i / PARTS * PITCH + i % PARTS * 2u;
                cells[to] = eight[0];
                cells[to + 1u] = eight[1];
            }
            workgroupBarrier();
            for (var e = 0u; e < DEPTH / 4u; e += 2u) {
                scores = scored(scores, QUERIES_AT + row * PITCH + e, column * PITCH + e);
                scores = scored(scores, QUERIES_AT + row * PITCH + e + 1u, column * PITCH + e + 1u);
            }
            workgroupBarrier();
        }
        scores.a = scaled(scores.a);
        scores.b = scaled(scores.b);
        let position = at + column;
        if is_mixed {
            scores.a = only_seen_matrix(scores.a, row, position, hull.y, LOWEST);
            scores.b = only_seen_matrix(scores.b, row + 4u, position, hull.y, LOWEST);
        }
        cells[column * (ROWS / 4u) + team * 2u] = largest_of_rows(scores.a);
        cells[column * (ROWS / 4u) + team * 2u + 1u] = largest_of_rows(scores.b);
        workgroupBarrier();
        if lane < ROWS {
            let before = largest[lane];
            // Whatever this is of a score that is NaN: the weight of that key is NaN, and so is the sum.
            var most = before;
            for (var other = 0u; other < LANES; other++) {
                most = max(most, cells[other * (ROWS / 4u) + lane / 4u][lane & 3u]);
            }
            largest[lane] = most;
            kept[lane] = weight(before - most);
        }
        workgroupBarrier();
        scores.a = weigh(scores.a, four_largest(row));
        if is_mixed {
            scores.a = only_seen_matrix(scores.a, row, position, hull.y, bitcast<f32>(UNSEEN));
        }
        let low = transpose(scores.a);
        put_weights(column, team * 2u, low);
        let low_kept = four_kept(row);
        weight_sums[lane] = weight_sums[lane] * low_kept + sums_of_rows(low);
        scores.b = weigh(scores.b, four_largest(row + 4u));
        if is_mixed {
            scores.b = only_seen_matrix(scores.b, row + 4u, position, hull.y, bitcast<f32>(UNSEEN));
        }
        let high = transpose(scores.b);
        put_weights(column, team * 2u + 1u, high);
        let high_kept = four_kept(row + 4u);
        weight_sums[lane + WG] = weight_sums[lane + WG] * high_kept + sums_of_rows(high);
        for (var c = 0u; c < COLUMNS; c++) {
            sums[c].a = times(sums[c].a, low_kept);
            sums[c].b = times(sums[c].b, high_kept);
        }
        workgroupBarrier();
        for (var from_key = 0u; from_key < count; from_key += TURN) {
            for (var round = 0u; round < VALUE_ROUNDS; round++) {
                let i = lane + round * WG;
                if VALUE_ROUNDS * WG > TURN / 8u * VALUES && i >= TURN / 8u * VALUES {
                    break;
                }
                // A row of values that divides the workgroup has the same invocations in each round.
                let is_even = WG % (VALUES / 8u) == 0u;
                let key = select(i / (VALUES / 8u), lane / (VALUES / 8u) + round * (WG * 8u / VALUES), is_even);
                let eight = select(i, lane, is_even) % (VALUES / 8u);
                let value = eight_v(cache_row(head, first, from_key + key, count) * VALUES + eight * 8u);
                cells[VALUES_AT + key * COLUMNS * LANES + eight * 2u] = value[0];
                cells[VALUES_AT + key * COLUMNS * LANES + eight * 2u + 1u] = value[1];
            }
            workgroupBarrier();
            if is_mixed {
                for (var key = 0u; key < TURN; key++) {
                    let rows = (from_key + key) * (ROWS / 4u) + team * 2u;
                    let low = cells[rows];
                    let high = cells[rows + 1u];
                    for (var c = 0u; c < COLUMNS; c++) {
                        let value = cells[VALUES_AT + (key * COLUMNS + c) * LANES + column];
                        sums[c] = multiplied_seen(sums[c], low, high, value);
                    }
                }
            } else {
                for (var key = 0u; key < TURN; key += 4u) {
                    let rows = (from_key + key) * (ROWS / 4u) + team * 2u;
                    let from_value = VALUES_AT + key * COLUMNS * LANES + column;
                    for (var c = 0u; c < COLUMNS; c++) {
                        for (var next = 0u; next < 4u; next++) {
                            let weights_at = rows + next * (ROWS / 4u);
                            let value = cells[from_value + (next * COLUMNS + c) * LANES];
                            sums[c] = multiplied(sums[c], cells[weights_at], cells[weights_at + 1u], value);
                        }
                    }
                }
            }
            workgroupBarrier();
        }
        first += KEYS;
        first = select(first, first - p.capacity, first >= p.capacity);
    }
    workgroupBarrier();
    if lane < ROWS {
        var sum = 0.0;
        for (var other = 0u; other < LANES; other++) {
            sum += weight_sums[lane / 4u % 2u * WG + lane / 8u * LANES + other][lane & 3u];
        }
        let before = largest[lane];
        var most = before;
        if (p.flags & 2u) == 2u {
            let sink = load_sinks(query_row(work, lane) % p.heads);
            most = max(before, sink);
            sum = sum * weight(before - most) + weight(sink - most);
        }
        // Not `sum != 0`, which is false of NaN too.
        kept[lane] = select(weight(before - most) / sum, 0.0, sum == 0.0);
    }
    workgroupBarrier();
    for (var c = 0u; c < COLUMNS; c++) {
        let d = (c * LANES + column) * 4u;
        if d < VALUES {
            store_four_rows(work, row, d, times(sums[c].a, four_kept(row)));
            store_four_rows(work, row + 4u, d, times(sums[c].b, four_kept(row + 4u)));
        }
    }
}

fn store_four_rows(work: Work, row: u32, d: u32, values: mat4x4<f32>) {
    store_four(work, row, d, values[0]);
    store_four(work, row + 1u, d, values[1]);
    store_four(work, row + 2u, d, values[2]);
    store_four(work, row + 3u, d, values[3]);
}

fn store_four(work: Work, i: u32, d: u32, value: vec4<f32>) {
    store_row(work, i, d, value.x);
    store_row(work, i, d + 1u, value.y);
    store_row(work, i, d + 2u, value.z);
    store_row(work, i, d + 3u, value.w);
}
