// y = softmax(scale * q k^T, masked) v, with a running maximum: a workgroup has up to four queries that share a head of keys, and the keys
// of an item of the work list, or all. `Rows` has an element for each query. It takes BLOCK keys at a time:
//
//   scores   two keys for each invocation, 16 elements at a time: four loads, then all products
//   maximum  of both keys, then of the workgroup
//   values   an invocation for eight elements; teams of VALUES / 8 invocations take turns with the keys, four at a time, and are added at the end
//
// Rows of a head of keys are tokens, then heads of the group. Other parts of the kernel are `Rows` and its functions, `largest_of` and
// `sum_of` over the workgroup, and `work_of`, `begin_rows` and `store_row`, for parts or whole results.
// Invocations of a team, and teams.
override TEAM: u32 = 8;
override TEAMS: u32 = 8;
// DIM + BLOCK, or TEAMS * VALUES if that is more.
override CELLS: u32 = 512;

// Queries, then scores of a block; after the last block, the values of teams.
var<workgroup> cells: array<Rows, CELLS>;

// The positions that each row sees.
struct Bounds {
    first: Counts,
    end: Counts,
}

// The exponentials of a softmax, of d up to 0 or NaN, as `weight` does.
fn weights(d: Rows) -> Rows {
    let powers = select(exp(d), Rows(), d < Rows(-87.0));
    return select(powers, d, (bitcast<Counts>(d) & Counts(0x7fffffffu)) > Counts(0x7f800000u));
}

// The scores of two keys.
struct Pair {
    a: Rows,
    b: Rows,
}

// Adds the products of elements d to d + 4.
fn multiplied(sums: Pair, d: u32, a: vec4<f32>, b: vec4<f32>) -> Pair {
    let q0 = cells[d];
    let q1 = cells[d + 1u];
    let q2 = cells[d + 2u];
    let q3 = cells[d + 3u];
    return Pair(
        sums.a + q0 * a.x + q1 * a.y + q2 * a.z + q3 * a.w,
        sums.b + q0 * b.x + q1 * b.y + q2 * b.z + q3 * b.w,
    );
}

// The same for eight elements.
fn multiplied_eight(sums: Pair, d: u32, a: mat2x4<f32>, b: mat2x4<f32>) -> Pair {
    return multiplied(multiplied(sums, d, a[0], b[0]), d + 4u, a[1], b[1]);
}

// The products of the queries with the keys from elements `a` and `b`.
fn scores_of(a: u32, b: u32) -> Pair {
    var sums = Pair();
    var d = 0u;
    for (; d + 16u <= DIM; d += 16u) {
        let a0 = eight_k(a + d);
        let b0 = eight_k(b + d);
        let a1 = eight_k(a + d + 8u);
        let b1 = eight_k(b + d + 8u);
        sums = multiplied_eight(sums, d, a0, b0);
        sums = multiplied_eight(sums, d + 8u, a1, b1);
    }
    for (; d < DIM; d += 8u) {
        sums = multiplied_eight(sums, d, eight_k(a + d), eight_k(b + d));
    }
    if p.softcap != 0.0 {
        return Pair(capped_rows(sums.a * p.scale), capped_rows(sums.b * p.scale));
    }
    return Pair(sums.a * p.scale, sums.b * p.scale);
}

// Adds eight elements of a value times the weights of its key.
fn add_values(sums: ptr<function, array<Rows, 8>>, value: mat2x4<f32>, share: Rows) {
    (*sums)[0] += share * value[0].x;
    (*sums)[1] += share * value[0].y;
    (*sums)[2] += share * value[0].z;
    (*sums)[3] += share * value[0].w;
    (*sums)[4] += share * value[1].x;
    (*sums)[5] += share * value[1].y;
    (*sums)[6] += share * value[1].z;
    (*sums)[7] += share * value[1].w;
}

// The same for a key that some rows do not see.
fn add_seen(sums: ptr<function, array<Rows, 8>>, value: mat2x4<f32>, share: Rows, sees: Flags) {
    (*sums)[0] += select(Rows(), share * value[0].x, sees);
    (*sums)[1] += select(Rows(), share * value[0].y, sees);
    (*sums)[2] += select(Rows(), share * value[0].z, sees);
    (*sums)[3] += select(Rows(), share * value[0].w, sees);
    (*sums)[4] += select(Rows(), share * value[1].x, sees);
    (*sums)[5] += select(Rows(), share * value[1].y, sees);
    (*sums)[6] += select(Rows(), share * value[1].z, sees);
    (*sums)[7] += select(Rows(), share * value[1].w, sees);
}

fn attend(work: Work, lane: u32) {
    if work.kv_head >= p.count || work.row >= work.rows {
        return;
    }
    let bounds = bounds_of(work);
    let ends = bounds.end;
    // Rows that see nothing have no part in the range.
    let opens = select(Counts(MOST_POSITIONS), bounds.first, bounds.first < ends);
    let last = largest_count(ends);
    let begin = max(max(least_count(opens), last - min(last, p.capacity)), work.begin);
    let end = min(last, work.end);
    for (var d = lane; d < DIM; d += WG) {
        cells[d] = queries_of(work, d);
    }
    workgroupBarrier();
    let team = lane / TEAM;
    let column = lane % TEAM * 8u;
    let head = work.kv_head * p.capacity;
    var largest = Rows(LOWEST);
    // Of the keys of this invocation.
    var sum = Rows();
    var values: array<Rows, 8>;
    for (var c = 0u; c < 8u; c++) {
        values[c] = Rows();
    }
    var first = begin % p.capacity;
    for (var at = begin; at < end; at += BLOCK) {
        // A range is at most the capacity long, so it passes the end of the ring once.
        let count = min(end - at, BLOCK);
        // Past the last key it is that one's elements that are read.
        let slots = vec2<u32>(first) + min(vec2<u32>(lane, lane + WG), vec2<u32>(count - 1u));
        let bases = (vec2<u32>(head) + min(slots, slots - p.capacity)) * DIM;
        let score = scores_of(bases.x, bases.y);
        let a = Counts(at + lane);
        let b = Counts(at + lane + WG);
        let limit = min(ends, Counts(end));
        let sees_a = (a >= bounds.first) & (a < limit);
        let sees_b = (b >= bounds.first) & (b < limit);
        let low = select(Rows(LOWEST), score.a, sees_a);
        let before = largest;
        // Whatever this is of a score that is NaN: the weight of that key is NaN, and so is the sum.
        largest = max(before, largest_of(max(low, select(Rows(LOWEST), score.b, sees_b)), lane));
        let share_a = select(Rows(), weights(score.a - largest), sees_a);
        let share_b = select(Rows(), weights(score.b - largest), sees_b);
        cells[DIM + lane] = share_a;
        cells[DIM + lane + WG] = share_b;
        if at > begin {
            let kept = weights(before - largest);
            sum *= kept;
            for (var c = 0u; c < 8u; c++) {
                values[c] *= kept;
            }
        }
        sum += share_a + share_b;
        workgroupBarrier();
        // Values that a row does not see may be NaN, which a weight of 0 would not remove.
        let is_mixed = is_any((Counts(at) < bounds.first) | (Counts(at + count) > ends));
        if team < TEAMS {
            var key = team;
            if !is_mixed && first + count <= p.capacity {
                let from_here = (head + first) * VALUES + column;
                for (; key + 3u * TEAMS < count; key += 4u * TEAMS) {
                    let base = from_here + key * VALUES;
                    let v0 = eight_v(base);
                    let v1 = eight_v(base + TEAMS * VALUES);
                    let v2 = eight_v(base + 2u * TEAMS * VALUES);
                    let v3 = eight_v(base + 3u * TEAMS * VALUES);
                    add_values(&values, v0, cells[DIM + key]);
                    add_values(&values, v1, cells[DIM + key + TEAMS]);
                    add_values(&values, v2, cells[DIM + key + 2u * TEAMS]);
                    add_values(&values, v3, cells[DIM + key + 3u * TEAMS]);
                }
            }
            for (; key < count; key += TEAMS) {
                let slot = first + key;
                let value = eight_v((head + min(slot, slot - p.capacity)) * VALUES + column);
                let share = cells[DIM + key];
                let sees = (Counts(at + key) >= bounds.first) & (Counts(at + key) < ends);
                add_seen(&values, value, share, sees);
            }
        }
        first += BLOCK;
        first = select(first, first - p.capacity, first >= p.capacity);
        workgroupBarrier();
    }
    let total = sum_of(sum, lane);
    if team < TEAMS {
        for (var c = 0u; c < 8u; c++) {
            cells[team * VALUES + column + c] = values[c];
        }
    }
    workgroupBarrier();
    let factor = begin_rows(work, largest, total, lane);
    for (var d = lane; d < VALUES; d += WG) {
        var value = cells[d];
        for (var other = 1u; other < TEAMS; other++) {
            value += cells[other * VALUES + d];
        }
        store_rows(work, d, value * factor);
    }
}

