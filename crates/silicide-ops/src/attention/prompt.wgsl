// y = softmax(scale * q k^T, masked) v for many queries, with a running maximum: a workgroup has ROWS queries that share a head of keys, and
// takes KEYS keys at a time. Invocation (team, lane) of TEAMS x LANES has eight rows, and four keys or COLUMNS vectors of the values:
//
//   scores   queries and keys pass through shared memory, DEPTH elements at a time; 32 products for 3 loads of 16 bytes
//   maximum  of each invocation's keys, then of a row by one invocation
//   values   eight keys at a time in shared memory; 32 * COLUMNS products for 2 + COLUMNS loads
//
// Rows of a head of keys are tokens, then heads of the group. Weights of keys that a row does not see are -1.
override TEAMS: u32 = 4;
override LANES: u32 = 16;
override ROWS: u32 = 32;
override KEYS: u32 = 64;
override DEPTH: u32 = 16;
// Rounds of all invocations that it takes to put eights of elements into shared memory: of queries, keys and values.
override QUERY_ROUNDS: u32 = (DEPTH / 8u * ROWS + WG - 1u) / WG;
override KEY_ROUNDS: u32 = (DEPTH / 8u * KEYS + WG - 1u) / WG;
override VALUE_ROUNDS: u32 = (VALUES + WG - 1u) / WG;
// Vectors of the values for an invocation, at most four.
override COLUMNS: u32 = 1;
// DEPTH * KEYS / 4, or 8 * COLUMNS * LANES if that is more.
override STAGED: u32 = 256;

// Vectors of four rows, for each element.
var<workgroup> queries: array<vec4<f32>, DEPTH * ROWS / 4u>;
// Vectors of four keys for each element, or vectors of values for each key.
var<workgroup> staged: array<vec4<f32>, STAGED>;
// Weights: vectors of four rows, for each key. Before that, maxima, for each lane.
var<workgroup> weighed: array<vec4<f32>, KEYS * ROWS / 4u>;
// Of rows: the largest score, what older sums are multiplied by, and the positions that are seen.
var<workgroup> largest: array<vec4<f32>, ROWS / 4u>;
var<workgroup> kept: array<vec4<f32>, ROWS / 4u>;
var<workgroup> bounds: array<vec2<u32>, ROWS>;
// Of all rows: the first position, the end, the last first position, the first end.
var<workgroup> hull: vec4<u32>;

// The exponentials of a softmax, as `weight` does.
fn weights(d: vec4<f32>) -> vec4<f32> {
    // Devices may make a small number of exp(-infinity), and lose NaN.
    let powers = select(exp(d), vec4<f32>(), d < vec4<f32>(-87.0));
    return select(powers, d, (bitcast<vec4<u32>>(d) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u));
}

// What a row of keys or values begins at, of the keys from slot `first` on. Past the last it is that one's.
fn cache_row(head: u32, first: u32, key: u32, count: u32) -> u32 {
    let slot = first + min(key, count - 1u);
    return head + min(slot, slot - p.capacity);
}

// Finds the positions that rows see.
fn find_bounds(work: Work, lane: u32) -> vec4<u32> {
    if lane < ROWS {
        bounds[lane] = visible_to(work, lane);
        largest[lane >> 2u][lane & 3u] = LOWEST;
    }
    workgroupBarrier();
    if lane == 0u {
        var all = vec4<u32>(MOST_POSITIONS, 0u, 0u, MOST_POSITIONS);
        for (var row = 0u; row < ROWS; row++) {
            let seen = bounds[row];
            // Rows that see nothing have no part in the range.
            if seen.x < seen.y {
                all.x = min(all.x, seen.x);
            }
            all = vec4<u32>(all.x, max(all.y, seen.y), max(all.z, seen.x), min(all.w, seen.y));
        }
        all.x = max(all.x, all.y - min(all.y, p.capacity));
        hull = all;
    }
    return workgroupUniformLoad(&hull);
}

// Puts elements `e` to `e` + 4 of a query, or of a key, into columns of shared memory.
fn put_query(e: u32, row: u32, elements: vec4<f32>) {
    let at = e * (ROWS / 4u) + row / 4u;
    queries[at][row & 3u] = elements.x;
    queries[at + ROWS / 4u][row & 3u] = elements.y;
    queries[at + 2u * (ROWS / 4u)][row & 3u] = elements.z;
    queries[at + 3u * (ROWS / 4u)][row & 3u] = elements.w;
}

fn put_key(e: u32, key: u32, elements: vec4<f32>) {
    let at = e * (KEYS / 4u) + key / 4u;
    staged[at][key & 3u] = elements.x;
    staged[at + KEYS / 4u][key & 3u] = elements.y;
    staged[at + 2u * (KEYS / 4u)][key & 3u] = elements.z;
    staged[at + 3u * (KEYS / 4u)][key & 3u] = elements.w;
}

// Puts the weights of four rows for four keys.
fn put_weights(at: u32, by_key: mat4x4<f32>) {
    weighed[at] = by_key[0];
    weighed[at + (ROWS / 4u)] = by_key[1];
    weighed[at + 2u * (ROWS / 4u)] = by_key[2];
    weighed[at + 3u * (ROWS / 4u)] = by_key[3];
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
    return select(share * by, vec4<f32>(), share < 0.0);
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
    if p.softcap == 0.0 {
        return s;
    }
    return mat4x4<f32>(capped_four(s[0]), capped_four(s[1]), capped_four(s[2]), capped_four(s[3]));
}

fn capped_four(s: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(capped(s.x), capped(s.y), capped(s.z), capped(s.w));
}

fn largest_in(v: vec4<f32>) -> f32 {
    return max(max(v.x, v.y), max(v.z, v.w));
}

fn largest_of_rows(m: mat4x4<f32>) -> vec4<f32> {
    return vec4<f32>(largest_in(m[0]), largest_in(m[1]), largest_in(m[2]), largest_in(m[3]));
}

// The weight of row `lane % ROWS` for a key; 0 where it does not see the key.
fn weight_of(lane: u32, key: u32) -> f32 {
    let share = weighed[key * (ROWS / 4u) + (lane % ROWS) / 4u][lane & 3u];
    return select(share, 0.0, share < 0.0);
}

// The sum of the weights of row `lane % ROWS`, of the keys that its invocations share.
fn row_sum(lane: u32) -> f32 {
    var sums = vec4<f32>();
    for (var key = lane / ROWS; key < KEYS; key += 4u * (WG / ROWS)) {
        sums += vec4<f32>(
            weight_of(lane, key),
            weight_of(lane, key + WG / ROWS),
            weight_of(lane, key + 2u * (WG / ROWS)),
            weight_of(lane, key + 3u * (WG / ROWS)),
        );
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}

// Adds the products of element `e` of the queries and keys in shared memory.
fn scored(sums: Eight, e: u32, team: u32, column: u32) -> Eight {
    let rows = e * (ROWS / 4u) + team * 2u;
    return multiplied(sums, queries[rows], queries[rows + 1u], staged[e * (KEYS / 4u) + column]);
}

fn weigh(scores: mat4x4<f32>, most: vec4<f32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        weights(scores[0] - most.x), weights(scores[1] - most.y),
        weights(scores[2] - most.z), weights(scores[3] - most.w),
    );
}

// Scores or weights of a row for the four keys from position `at` on, with another number for those that it does not see.
fn only_seen(shares: vec4<f32>, row: u32, at: u32, end: u32, otherwise: f32) -> vec4<f32> {
    let positions = vec4<u32>(at, at + 1u, at + 2u, at + 3u);
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
    let hull = find_bounds(work, lane);
    let team = lane / LANES;
    let column = lane % LANES;
    let head = work.kv_head * p.capacity;
    let query = query_row(work, lane % ROWS) * DIM;
    var sums: array<Eight, 4>;
    for (var c = 0u; c < COLUMNS; c++) {
        sums[c] = Eight();
    }
    // Sums of the weights of a row, by the invocations that have its maximum, of some of the keys.
    var sum = 0.0;
    var first = hull.x % p.capacity;
    for (var at = hull.x; at < hull.y; at += KEYS) {
        // A range is at most the capacity long, so it passes the end of the ring once.
        let count = min(hull.y - at, KEYS);
        let is_mixed = at < hull.z || at + KEYS > hull.w;
        // The keys that this invocation puts into shared memory: one, or two in turns.
        let near = cache_row(head, first, lane, count) * DIM;
        let far = cache_row(head, first, lane + WG, count) * DIM;
        var scores = Eight();
        for (var d = 0u; d < DIM; d += DEPTH) {
            for (var round = 0u; round < QUERY_ROUNDS; round++) {
                let i = lane + round * WG;
                if QUERY_ROUNDS * WG > DEPTH / 8u * ROWS && i >= DEPTH / 8u * ROWS {
                    break;
                }
                let part = i / ROWS * 8u;
                let row = i % ROWS;
                let eight = eight_q(query + d + part);
                put_query(part, row, eight[0]);
                put_query(part + 4u, row, eight[1]);
            }
            for (var round = 0u; round < KEY_ROUNDS; round++) {
                let i = lane + round * WG;
                let part = i / KEYS * 8u;
                let base = select(near, far, KEYS > WG && (round & 1u) == 1u);
                let eight = eight_k(base + d + part);
                put_key(part, i % KEYS, eight[0]);
                put_key(part + 4u, i % KEYS, eight[1]);
            }
            workgroupBarrier();
            for (var e = 0u; e < DEPTH; e += 4u) {
                scores = scored(scores, e, team, column);
                scores = scored(scores, e + 1u, team, column);
                scores = scored(scores, e + 2u, team, column);
                scores = scored(scores, e + 3u, team, column);
            }
            workgroupBarrier();
        }
        scores.a = scaled(scores.a);
        scores.b = scaled(scores.b);
        let row = team * 8u;
        let position = at + column * 4u;
        if is_mixed {
            scores.a = only_seen_matrix(scores.a, row, position, hull.y, LOWEST);
            scores.b = only_seen_matrix(scores.b, row + 4u, position, hull.y, LOWEST);
        }
        weighed[column * (ROWS / 4u) + team * 2u] = largest_of_rows(scores.a);
        weighed[column * (ROWS / 4u) + team * 2u + 1u] = largest_of_rows(scores.b);
        workgroupBarrier();
        if lane < ROWS {
            let before = largest[lane >> 2u][lane & 3u];
            // Whatever this is of a score that is NaN: the weight of that key is NaN, and so is the sum.
            var most = before;
            for (var other = 0u; other < LANES; other++) {
                most = max(most, weighed[other * (ROWS / 4u) + lane / 4u][lane & 3u]);
            }
            largest[lane >> 2u][lane & 3u] = most;
            kept[lane >> 2u][lane & 3u] = weight(before - most);
        }
        workgroupBarrier();
        scores.a = weigh(scores.a, largest[team * 2u]);
        scores.b = weigh(scores.b, largest[team * 2u + 1u]);
        let low_kept = kept[team * 2u];
        let high_kept = kept[team * 2u + 1u];
        if is_mixed {
            scores.a = only_seen_matrix(scores.a, row, position, hull.y, -1.0);
            scores.b = only_seen_matrix(scores.b, row + 4u, position, hull.y, -1.0);
        }
        for (var c = 0u; c < COLUMNS; c++) {
            sums[c].a = times(sums[c].a, low_kept);
            sums[c].b = times(sums[c].b, high_kept);
        }
        put_weights(column * ROWS + team * 2u, transpose(scores.a));
        put_weights(column * ROWS + team * 2u + 1u, transpose(scores.b));
        workgroupBarrier();
        sum = sum * kept[(lane % ROWS) >> 2u][lane & 3u] + row_sum(lane);
        for (var from_key = 0u; from_key < count; from_key += 8u) {
            for (var round = 0u; round < VALUE_ROUNDS; round++) {
                let i = lane + round * WG;
                if VALUE_ROUNDS * WG > VALUES && i >= VALUES {
                    break;
                }
                // A row of values that divides the workgroup has the same invocations in each round.
                let is_even = WG % (VALUES / 8u) == 0u;
                let key = select(i / (VALUES / 8u), lane / (VALUES / 8u) + round * (WG * 8u / VALUES), is_even);
                let eight = select(i, lane, is_even) % (VALUES / 8u);
                let value = eight_v(cache_row(head, first, from_key + key, count) * VALUES + eight * 8u);
                staged[key * COLUMNS * LANES + eight * 2u] = value[0];
                staged[key * COLUMNS * LANES + eight * 2u + 1u] = value[1];
            }
            workgroupBarrier();
            for (var key = 0u; key < 8u; key += 2u) {
                let rows = (from_key + key) * (ROWS / 4u) + team * 2u;
                let low = weighed[rows];
                let high = weighed[rows + 1u];
                let next_low = weighed[rows + (ROWS / 4u)];
                let next_high = weighed[rows + (ROWS / 4u) + 1u];
                for (var c = 0u; c < COLUMNS; c++) {
                    let value = staged[(key * COLUMNS + c) * LANES + column];
                    let next = staged[((key + 1u) * COLUMNS + c) * LANES + column];
                    if is_mixed {
                        sums[c] = multiplied_seen(multiplied_seen(sums[c], low, high, value), next_low, next_high, next);
                    } else {
                        sums[c] = multiplied(multiplied(sums[c], low, high, value), next_low, next_high, next);
                    }
                }
            }
            workgroupBarrier();
        }
        first += KEYS;
        first = select(first, first - p.capacity, first >= p.capacity);
    }
    weighed[lane >> 2u][lane & 3u] = sum;
    workgroupBarrier();
    if lane < ROWS {
        for (var other = lane + ROWS; other < WG; other += ROWS) {
            sum += weighed[other >> 2u][other & 3u];
        }
        let before = largest[lane >> 2u][lane & 3u];
        var most = before;
        if (p.flags & 2u) == 2u {
            let sink = load_sinks(query_row(work, lane) % p.heads);
            most = max(before, sink);
            sum = sum * weight(before - most) + weight(sink - most);
        }
        // Not `sum != 0`, which is false of NaN too.
        kept[lane >> 2u][lane & 3u] = select(weight(before - most) / sum, 0.0, sum == 0.0);
    }
    workgroupBarrier();
    for (var c = 0u; c < COLUMNS; c++) {
        let d = (c * LANES + column) * 4u;
        if d < VALUES {
            store_four_rows(work, team * 8u, d, times(sums[c].a, kept[team * 2u]));
            store_four_rows(work, team * 8u + 4u, d, times(sums[c].b, kept[team * 2u + 1u]));
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
