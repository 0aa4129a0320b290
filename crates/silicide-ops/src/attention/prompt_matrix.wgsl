// y = softmax(scale * q k^T, masked) v for many queries in matrices of SIDE x SIDE that subgroups multiply, with sums of f32: a
// workgroup of four subgroups has ROWS queries that share a head of keys, and takes KEYS keys at a time.
//
//   for each block of KEYS keys:
//     scores   subgroup i has the half i / 2 of the queries and the half i % 2 of the keys: two matrices
//     softmax  SHARE invocations of a subgroup have a row: its largest score, its weights, its sum
//     values   subgroup i has all queries and each fourth matrix of columns: 4 * TILES matrices, in registers for all blocks
//
// The values of a block are stored with keys side by side, as the right factor of a product needs them.
//
// Sums are multiplied by exp(old base - new base) where the base of a row changes. They lie in matrices, whose elements have no index, so
// they pass through shared memory for it. To make that rare the base follows the largest score only where that is more than SLACK above:
// weights are at most exp(SLACK), which f16 holds.
//
// Factors are rounded to `Element`, to nearest even: the host requires it. A score that is not finite is computed again in f32. Values
// that are not finite as `Element` would make NaN of a weight of 0, so a block that has them is summed in f32, over the keys that
// each row sees.
//
// Shared memory: rows of elements, with PAD after each.
//
//   query_cells    row * QUERY_PITCH + d         score_cells    row * SCORE_PITCH + key
//   cells          key * QUERY_PITCH + d of keys, then d * PITCH + key of values
//   weight_cells   row * PITCH + key
//
// score_cells also take two matrices of sums of each subgroup: (subgroup * 2 * SIDE + row) * SIDE + d.
override SUBGROUP: u32 = 32;
const ROWS: u32 = 4u * SIDE;
const KEYS: u32 = 2u * SIDE;
const PITCH: u32 = KEYS + PAD;
const SCORE_PITCH: u32 = KEYS + 4u;
override QUERY_PITCH: u32 = DIM + PAD;
// Invocations that share a row of scores, and fours of its scores that each has, at most four.
override SHARE: u32 = SUBGROUP / SIDE;
override FOURS: u32 = KEYS / 4u / SHARE;
// Matrices of columns of the values that a subgroup has, at most four.
override TILES: u32 = 1;
// The more of KEYS * QUERY_PITCH and TILES * ROWS * PITCH.
override CELLS: u32 = 4096;
// Rounds of all invocations that it takes to store eights of elements.
override QUERY_ROUNDS: u32 = (ROWS * DIM / 8u + WG - 1u) / WG;
override KEY_ROUNDS: u32 = (KEYS * DIM / 8u + WG - 1u) / WG;
override VALUE_ROUNDS: u32 = (SIDE * VALUES / 8u + WG - 1u) / WG;
// How far scores of a row may be above its base.
const SLACK: f32 = 8.0;
// The bits of a magnitude from which `Element` has infinity or NaN.
const LOST_FROM: u32 = select(0x7f800000u, 0x477ff000u, ROUNDS);
// What a subgroup found in a block: the base of a row changed; values are not finite.
const CHANGED: u32 = 1u;
const LOST: u32 = 2u;

var<workgroup> query_cells: array<Element, ROWS * QUERY_PITCH>;
var<workgroup> cells: array<Element, CELLS>;
var<workgroup> score_cells: array<f32, ROWS * SCORE_PITCH>;
var<workgroup> weight_cells: array<Element, ROWS * PITCH>;
// What sums of rows are multiplied by.
var<workgroup> kept: array<f32, ROWS>;
// What each subgroup found.
var<workgroup> found: array<u32, 4>;

// The number of the invocation's subgroup, and of the invocation in it.
var<private> quarter: u32;
var<private> invocation: u32;

// A block of keys: the first position, their number, the slot of the first.
struct KeyBlock {
    at: u32,
    count: u32,
    head: u32,
    first: u32,
}

fn put_query(at: u32, values: vec4<f32>) {
    let narrow = vec4<Element>(values);
    query_cells[at] = narrow.x;
    query_cells[at + 1u] = narrow.y;
    query_cells[at + 2u] = narrow.z;
    query_cells[at + 3u] = narrow.w;
}

fn put_key(at: u32, values: vec4<f32>) {
    let narrow = vec4<Element>(values);
    cells[at] = narrow.x;
    cells[at + 1u] = narrow.y;
    cells[at + 2u] = narrow.z;
    cells[at + 3u] = narrow.w;
}

fn put_weights(at: u32, values: vec4<f32>) {
    let narrow = vec4<Element>(values);
    weight_cells[at] = narrow.x;
    weight_cells[at + 1u] = narrow.y;
    weight_cells[at + 2u] = narrow.z;
    weight_cells[at + 3u] = narrow.w;
}

// Puts four columns of the values of two neighbouring keys.
fn put_values(at: u32, low: vec4<f32>, high: vec4<f32>) {
    let first = vec4<Element>(low);
    let second = vec4<Element>(high);
    cells[at] = first.x;
    cells[at + 1u] = second.x;
    cells[at + PITCH] = first.y;
    cells[at + PITCH + 1u] = second.y;
    cells[at + 2u * PITCH] = first.z;
    cells[at + 2u * PITCH + 1u] = second.z;
    cells[at + 3u * PITCH] = first.w;
    cells[at + 3u * PITCH + 1u] = second.w;
}

fn magnitudes(values: vec4<f32>) -> vec4<u32> {
    return bitcast<vec4<u32>>(values) & vec4<u32>(0x7fffffffu);
}

// The largest magnitude of sixteen numbers, as bits.
fn largest_magnitude(a: mat2x4<f32>, b: mat2x4<f32>) -> u32 {
    let most = max(
        max(magnitudes(a[0]), magnitudes(a[1])),
        max(magnitudes(b[0]), magnitudes(b[1])),
    );
    return max(max(most.x, most.y), max(most.z, most.w));
}

fn fill_queries(lane: u32) {
    for (var round = 0u; round < QUERY_ROUNDS; round++) {
        let i = lane + round * WG;
        if i < ROWS * DIM / 8u {
            let row = i / (DIM / 8u);
            let d = i % (DIM / 8u) * 8u;
            let eight = eight_q(query_starts[row] + d);
            put_query(row * QUERY_PITCH + d, eight[0]);
            put_query(row * QUERY_PITCH + d + 4u, eight[1]);
        }
    }
}

fn fill_keys(block: KeyBlock, lane: u32) {
    for (var round = 0u; round < KEY_ROUNDS; round++) {
        let i = lane + round * WG;
        if KEYS * DIM / 8u % WG == 0u || i < KEYS * DIM / 8u {
            let key = i / (DIM / 8u);
            let d = i % (DIM / 8u) * 8u;
            let eight = eight_k(cache_row(block.head, block.first, key, block.count) * DIM + d);
            put_key(key * QUERY_PITCH + d, eight[0]);
            put_key(key * QUERY_PITCH + d + 4u, eight[1]);
        }
    }
}

// Stores the values of a block, in pairs of keys. Returns the largest magnitude of the invocation's, as bits.
fn fill_values(block: KeyBlock, lane: u32) -> u32 {
    var most = 0u;
    for (var round = 0u; round < VALUE_ROUNDS; round++) {
        let i = lane + round * WG;
        if SIDE * VALUES / 8u % WG == 0u || i < SIDE * VALUES / 8u {
            let key = i % SIDE * 2u;
            let d = i / SIDE * 8u;
            let a = eight_v(cache_row(block.head, block.first, key, block.count) * VALUES + d);
            let b = eight_v(cache_row(block.head, block.first, key + 1u, block.count) * VALUES + d);
            most = max(most, largest_magnitude(a, b));
            put_values(d * PITCH + key, a[0], b[0]);
            put_values((d + 4u) * PITCH + key, a[1], b[1]);
        }
    }
    return most;
}

// The scores of the invocation's row: keys SHARE fours apart.
fn four_scores(at: u32) -> vec4<f32> {
    return vec4<f32>(score_cells[at], score_cells[at + 1u], score_cells[at + 2u], score_cells[at + 3u]);
}

// The product of a query and a key in f32.
fn exact_score(query: u32, key: u32) -> f32 {
    var sums = vec4<f32>();
    // Not `DIM`, a constant: compilers would unroll what rarely runs, for many registers.
    for (var d = 0u; d < p.dim; d += 8u) {
        let a = eight_q(query + d);
        let b = eight_k(key + d);
        sums += a[0] * b[0] + a[1] * b[1];
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}

// Which of four keys from `key` on a row sees.
fn sees(seen: vec2<u32>, block: KeyBlock, key: u32) -> vec4<bool> {
    let positions = vec4<u32>(block.at + key) + vec4<u32>(0u, 1u, 2u, 3u);
    let end = min(seen.y, block.at + block.count);
    return (positions >= vec4<u32>(seen.x)) & (positions < vec4<u32>(end));
}

// A bit for each of four scores that is not finite, of a key that the row sees.
fn lost_scores(scores: vec4<f32>, seen: vec4<bool>) -> u32 {
    let is_lost = (magnitudes(scores) >= vec4<u32>(0x7f800000u)) & seen;
    let bits = select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), is_lost);
    return bits.x | bits.y | bits.z | bits.w;
}

// Computes the scores of a row in f32 that have a bit in `lost`.
fn mend_scores(lost: u32, row: u32, part: u32, block: KeyBlock) {
    for (var left = lost; left != 0u; left &= left - 1u) {
        let bit = firstTrailingBit(left);
        let key = (bit / 4u * SHARE + part) * 4u + bit % 4u;
        let start = cache_row(block.head, block.first, key, block.count) * DIM;
        score_cells[row * SCORE_PITCH + key] = exact_score(query_starts[row], start);
    }
}

fn scaled(scores: vec4<f32>) -> vec4<f32> {
    if CAPPED == 0u {
        return scores * p.scale;
    }
    return capped_four(scores * p.scale);
}

// Brings two matrices of sums of each subgroup to shared memory, one below the other. What is stored must have a name.
fn put_sums(top: Sums, bottom: Sums) {
    workgroupBarrier();
    let first = quarter * (2u * SIDE * SIDE);
    let to_top = &score_cells[first];
    let to_bottom = &score_cells[first + SIDE * SIDE];
    coopStoreT(top, to_top, SIDE);
    coopStoreT(bottom, to_bottom, SIDE);
}

// Four sums of the subgroup's pair: where they lie, their row and their first column.
struct Place {
    at: u32,
    row: u32,
    column: u32,
}

// Four number `i` of pair `pair`: the upper and the lower half of the rows take turns.
fn place_of(i: u32, pair: u32) -> Place {
    let across = SIDE / 4u;
    let row = pair % 2u * (2u * SIDE);
    let tile = pair / 2u;
    return Place(
        (quarter * (SIDE / 2u) * SIDE + i) * 4u,
        row + i / across,
        (tile * 4u + quarter) * SIDE + i % across * 4u,
    );
}

// The values of a block for four columns, weighed by a row, over the keys that it sees.
fn exact_values(place: Place, block: KeyBlock) -> vec4<f32> {
    var sums = vec4<f32>();
    let seen = bounds[place.row];
    for (var key = 0u; key < block.count && place.column < VALUES; key++) {
        let position = block.at + key;
        if position >= seen.x && position < seen.y {
            let start = cache_row(block.head, block.first, key, block.count) * VALUES;
            let eight = eight_v(start + place.column / 8u * 8u);
            let four = select(eight[0], eight[1], place.column % 8u != 0u);
            sums += f32(weight_cells[place.row * PITCH + key]) * four;
        }
    }
    return sums;
}

// Multiplies the pair of matrices in shared memory by what is kept of their rows; adds the values of a block that are lost.
fn mend_sums(pair: u32, block: KeyBlock, what: u32) {
    workgroupBarrier();
    for (var i = invocation; i < SIDE * SIDE / 2u; i += SUBGROUP) {
        let place = place_of(i, pair);
        var sums = four_scores(place.at) * kept[place.row];
        if (what & LOST) != 0u {
            sums += exact_values(place, block);
        }
        score_cells[place.at] = sums.x;
        score_cells[place.at + 1u] = sums.y;
        score_cells[place.at + 2u] = sums.z;
        score_cells[place.at + 3u] = sums.w;
    }
    workgroupBarrier();
}

// Stores the pair of matrices in shared memory as results.
fn store_sums(work: Work, is_inside: bool, pair: u32) {
    workgroupBarrier();
    for (var i = invocation; i < SIDE * SIDE / 2u; i += SUBGROUP) {
        let place = place_of(i, pair);
        if is_inside && place.column < VALUES {
            let sums = four_scores(place.at) * kept[place.row];
            store_row(work, place.row, place.column, sums.x);
            store_row(work, place.row, place.column + 1u, sums.y);
            store_row(work, place.row, place.column + 2u, sums.z);
            store_row(work, place.row, place.column + 3u, sums.w);
        }
    }
}
