// The tile's part of the product with the weights `$NAME`. A depth of `k` is `p.k`, or 0 where the tile lies outside: barriers are
// met all the same. `start_a` and `start_$NAME` say where a row and a column begin; `keep_four_$NAME` stores four outputs of a row.
// Call from uniform control flow.

// Stores the outputs of a pair. Returns a bit for each turn: whether the invocation's four outputs of that turn are to be summed in
// f32 instead.
fn store_pair_$NAME(tile: Tile, pair: u32, lane: u32) -> u32 {
    workgroupBarrier();
    var lost = 0u;
    for (var turn = 0u; turn < TURNS; turn++) {
        let four = turn * WG + lane;
        if four < FOURS {
            let at = four * 4u;
            let sums = vec4<f32>(y_cells[at], y_cells[at + 1u], y_cells[at + 2u], y_cells[at + 3u]);
            if !ROUNDS || are_finite(sums) {
                keep_four_$NAME(tile, place_of(pair, four), sums);
            } else {
                lost |= 1u << turn;
            }
        }
    }
    workgroupBarrier();
    return lost;
}

// Sums in f32 what is lost: turn `i` of pair `j` is bit `j * TURNS + i`.
fn sum_lost_$NAME(tile: Tile, lost: u32, lane: u32) {
    for (var left = lost; left != 0u; left &= left - 1u) {
        let bit = firstTrailingBit(left);
        let place = place_of(bit / TURNS, bit % TURNS * WG + lane);
        let row = start_a(tile, place.x);
        var sums = vec4<f32>();
        for (var i = 0u; i < 4u; i++) {
            sums[i] = exact_$NAME(row, start_$NAME(tile, place.y + i));
        }
        keep_four_$NAME(tile, place, sums);
    }
}

fn multiply_$NAME(tile: Tile, k: u32, lane: u32) {
    // The invocation's part of a row and of a column: where it begins, and its cells. Nothing of it changes in the loop.
    let half = lane % 2u;
    let mine = lane / 2u % TILE;
    let a_part = half * 16u;
    let b_part = part_$NAME(half);
    let a_first = start_a(tile, mine) + a_part;
    let b_column = column_part_$NAME(start_$NAME(tile, mine), half);
    let a_cell = mine * PITCH + a_part;
    let b_cell = mine * PITCH + b_part;
    for (var i = lane; i < SIDE * SIDE; i += WG) {
        y_cells[i] = 0.0;
    }
    workgroupBarrier();
    let zero = coopLoadT<Sums>(&y_cells[0], SIDE);
    var sum_00 = zero;
    var sum_01 = zero;
    var sum_02 = zero;
    var sum_03 = zero;
    var sum_10 = zero;
    var sum_11 = zero;
    var sum_12 = zero;
    var sum_13 = zero;
    var sum_20 = zero;
    var sum_21 = zero;
    var sum_22 = zero;
    var sum_23 = zero;
    var sum_30 = zero;
    var sum_31 = zero;
    var sum_32 = zero;
    var sum_33 = zero;
    workgroupBarrier();
    let a_quarter = quarter / 2u * QUARTER * PITCH;
    let b_quarter = quarter % 2u * QUARTER * PITCH;
    for (var start = 0u; start < k; start += STEP) {
        if WG <= 2u * TILE || lane < 2u * TILE {
            fill_a(a_first + start, start + a_part, a_cell);
            fill_$NAME(b_column, start, half, b_cell);
        }
        // The condition is constant: no loop is left where each invocation has one part. Parts of an invocation are all the first or
        // all the second of a step.
        if WG < 2u * TILE {
            for (var item = lane + WG; item < 2u * TILE; item += WG) {
                let cell = item / 2u * PITCH;
                fill_a(start_a(tile, item / 2u) + a_part + start, start + a_part, cell + a_part);
                fill_$NAME(column_part_$NAME(start_$NAME(tile, item / 2u), half), start, half, cell + b_part);
            }
        }
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth += SIDE) {
            let from_a = a_quarter + depth;
            let from_b = b_quarter + depth;
            let a_0 = coopLoadT<Left>(&a_cells[from_a], PITCH);
            let a_1 = coopLoadT<Left>(&a_cells[from_a + 1u * SIDE * PITCH], PITCH);
            let a_2 = coopLoadT<Left>(&a_cells[from_a + 2u * SIDE * PITCH], PITCH);
            let a_3 = coopLoadT<Left>(&a_cells[from_a + 3u * SIDE * PITCH], PITCH);
            let b_0 = coopLoad<Right>(&b_cells[from_b], PITCH);
            sum_00 = coopMultiplyAdd(a_0, b_0, sum_00);
            sum_10 = coopMultiplyAdd(a_1, b_0, sum_10);
            sum_20 = coopMultiplyAdd(a_2, b_0, sum_20);
            sum_30 = coopMultiplyAdd(a_3, b_0, sum_30);
            let b_1 = coopLoad<Right>(&b_cells[from_b + 1u * SIDE * PITCH], PITCH);
            sum_01 = coopMultiplyAdd(a_0, b_1, sum_01);
            sum_11 = coopMultiplyAdd(a_1, b_1, sum_11);
            sum_21 = coopMultiplyAdd(a_2, b_1, sum_21);
            sum_31 = coopMultiplyAdd(a_3, b_1, sum_31);
            let b_2 = coopLoad<Right>(&b_cells[from_b + 2u * SIDE * PITCH], PITCH);
            sum_02 = coopMultiplyAdd(a_0, b_2, sum_02);
            sum_12 = coopMultiplyAdd(a_1, b_2, sum_12);
            sum_22 = coopMultiplyAdd(a_2, b_2, sum_22);
            sum_32 = coopMultiplyAdd(a_3, b_2, sum_32);
            let b_3 = coopLoad<Right>(&b_cells[from_b + 3u * SIDE * PITCH], PITCH);
            sum_03 = coopMultiplyAdd(a_0, b_3, sum_03);
            sum_13 = coopMultiplyAdd(a_1, b_3, sum_13);
            sum_23 = coopMultiplyAdd(a_2, b_3, sum_23);
            sum_33 = coopMultiplyAdd(a_3, b_3, sum_33);
        }
        workgroupBarrier();
    }
    var lost = 0u;
    put_pair(sum_00, sum_01);
    lost |= store_pair_$NAME(tile, 0u, lane) << (0u * TURNS);
    put_pair(sum_02, sum_03);
    lost |= store_pair_$NAME(tile, 1u, lane) << (1u * TURNS);
    put_pair(sum_10, sum_11);
    lost |= store_pair_$NAME(tile, 2u, lane) << (2u * TURNS);
    put_pair(sum_12, sum_13);
    lost |= store_pair_$NAME(tile, 3u, lane) << (3u * TURNS);
    put_pair(sum_20, sum_21);
    lost |= store_pair_$NAME(tile, 4u, lane) << (4u * TURNS);
    put_pair(sum_22, sum_23);
    lost |= store_pair_$NAME(tile, 5u, lane) << (5u * TURNS);
    put_pair(sum_30, sum_31);
    lost |= store_pair_$NAME(tile, 6u, lane) << (6u * TURNS);
    put_pair(sum_32, sum_33);
    lost |= store_pair_$NAME(tile, 7u, lane) << (7u * TURNS);
    if ROUNDS {
        sum_lost_$NAME(tile, lost, lane);
    }
}
