// The entry point of attention in matrices, over `prompt_matrix.wgsl`.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    var work = work_of(group, groups);
    // Workgroups past the end take the last head's first rows and no keys, and store nothing: returning early would count as control
    // flow that is not uniform.
    let is_inside = work.kv_head < p.count && work.row < work.rows;
    work.kv_head = min(work.kv_head, p.count - 1u);
    work.row = select(0u, work.row, is_inside);
    quarter = subgroup;
    invocation = place;
    let lane = subgroup * SUBGROUP + place;
    let hull = find_bounds(work, lane);
    fill_queries(lane);
    for (var i = lane; i < SIDE * SIDE; i += WG) {
        score_cells[i] = 0.0;
    }
    workgroupBarrier();
    let zero = coopLoadT<Sums>(&score_cells[0], SIDE);
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
    // Of the invocation's row: what weights are relative to, and the sum of the weights of its keys.
    let row = lane / SHARE;
    let part = lane % SHARE;
    let seen = bounds[row];
    var base = LOWEST;
    var total = 0.0;
    var block = KeyBlock(hull.x, 0u, work.kv_head * p.capacity, hull.x % p.capacity);
    let end = select(0u, hull.y, is_inside);
    for (; block.at < end; block.at += KEYS) {
        // A range is at most the capacity long, so it passes the end of the ring once.
        block.count = min(hull.y - block.at, KEYS);
        let is_mixed = block.at < hull.z || block.at + KEYS > hull.w;
        fill_keys(block, lane);
        workgroupBarrier();
        let from_query = quarter / 2u * (2u * SIDE) * QUERY_PITCH;
        let from_key = quarter % 2u * SIDE * QUERY_PITCH;
        var top = zero;
        var bottom = zero;
        for (var d = 0u; d < DIM; d += SIDE) {
            let keys = coopLoad<Right>(&cells[from_key + d], QUERY_PITCH);
            let above = coopLoadT<Left>(&query_cells[from_query + d], QUERY_PITCH);
            top = coopMultiplyAdd(above, keys, top);
            let below = coopLoadT<Left>(&query_cells[from_query + SIDE * QUERY_PITCH + d], QUERY_PITCH);
            bottom = coopMultiplyAdd(below, keys, bottom);
        }
        let from_score = quarter / 2u * (2u * SIDE) * SCORE_PITCH + quarter % 2u * SIDE;
        let to_top = &score_cells[from_score];
        let to_bottom = &score_cells[from_score + SIDE * SCORE_PITCH];
        coopStoreT(top, to_top, SCORE_PITCH);
        coopStoreT(bottom, to_bottom, SCORE_PITCH);
        workgroupBarrier();
        let is_lost = fill_values(block, lane) >= LOST_FROM;
        var scores: array<vec4<f32>, 4>;
        var magnitude = vec4<u32>();
        for (var i = 0u; i < FOURS; i++) {
            scores[i] = four_scores(row * SCORE_PITCH + (i * SHARE + part) * 4u);
            magnitude = max(magnitude, magnitudes(scores[i]));
        }
        if ROUNDS && max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w)) >= 0x7f800000u {
            var lost = 0u;
            for (var i = 0u; i < FOURS; i++) {
                lost |= lost_scores(scores[i], sees(seen, block, (i * SHARE + part) * 4u)) << (4u * i);
            }
            mend_scores(lost, row, part, block);
            for (var i = 0u; i < FOURS; i++) {
                scores[i] = four_scores(row * SCORE_PITCH + (i * SHARE + part) * 4u);
            }
        }
        var most = base;
        for (var i = 0u; i < FOURS; i++) {
            scores[i] = scaled(scores[i]);
            if is_mixed {
                scores[i] = select(vec4<f32>(LOWEST), scores[i], sees(seen, block, (i * SHARE + part) * 4u));
            }
            most = max(most, largest_in(scores[i]));
        }
        for (var width = 1u; width < SHARE; width *= 2u) {
            most = max(most, subgroupShuffleXor(most, width));
        }
        // Whatever `most` is of a score that is NaN: the weight of that key is NaN, and so is the sum.
        let before = base;
        base = select(base, most, most > base + SLACK);
        let factor = weight(before - base);
        total *= factor;
        for (var i = 0u; i < FOURS; i++) {
            let key = (i * SHARE + part) * 4u;
            var shares = weights(scores[i] - base);
            if is_mixed {
                shares = select(vec4<f32>(), shares, sees(seen, block, key));
            }
            total += (shares.x + shares.y) + (shares.z + shares.w);
            put_weights(row * PITCH + key, shares);
        }
        if part == 0u {
            kept[row] = factor;
        }
        let is_changed = subgroupAny(before != base && block.at > hull.x);
        let has_lost = subgroupAny(is_lost);
        if invocation == 0u {
            found[quarter] = select(0u, CHANGED, is_changed) | select(0u, LOST, has_lost);
        }
        let all = workgroupUniformLoad(&found);
        let what = all[0] | all[1] | all[2] | all[3];
        // The pairs of matrices take turns as the first pair, so that there is one copy of the text.
        for (var pair = 0u; what != 0u && pair < 2u * TILES; pair++) {
            put_sums(sum_00, sum_10);
            mend_sums(pair, block, what);
            let top = coopLoadT<Sums>(&score_cells[quarter * (2u * SIDE * SIDE)], SIDE);
            let bottom = coopLoadT<Sums>(&score_cells[quarter * (2u * SIDE * SIDE) + SIDE * SIDE], SIDE);
            sum_00 = sum_20;
            sum_10 = sum_30;
            if TILES == 1u {
                sum_20 = top;
                sum_30 = bottom;
            }
            if TILES > 1u {
                sum_20 = sum_01;
                sum_30 = sum_11;
                sum_01 = sum_21;
                sum_11 = sum_31;
            }
            if TILES == 2u {
                sum_21 = top;
                sum_31 = bottom;
            }
            if TILES > 2u {
                sum_21 = sum_02;
                sum_31 = sum_12;
                sum_02 = sum_22;
                sum_12 = sum_32;
            }
            if TILES == 3u {
                sum_22 = top;
                sum_32 = bottom;
            }
            if TILES > 3u {
                sum_22 = sum_03;
                sum_32 = sum_13;
                sum_03 = sum_23;
                sum_13 = sum_33;
            }
            if TILES == 4u {
                sum_23 = top;
                sum_33 = bottom;
            }
        }
        if (what & LOST) == 0u {
            for (var key = 0u; key < KEYS; key += SIDE) {
                let weights_0 = coopLoadT<Left>(&weight_cells[key], PITCH);
                let weights_1 = coopLoadT<Left>(&weight_cells[SIDE * PITCH + key], PITCH);
                let weights_2 = coopLoadT<Left>(&weight_cells[2u * SIDE * PITCH + key], PITCH);
                let weights_3 = coopLoadT<Left>(&weight_cells[3u * SIDE * PITCH + key], PITCH);
                let from_value = quarter * SIDE * PITCH + key;
                let values = coopLoad<Right>(&cells[from_value], PITCH);
                sum_00 = coopMultiplyAdd(weights_0, values, sum_00);
                sum_10 = coopMultiplyAdd(weights_1, values, sum_10);
                sum_20 = coopMultiplyAdd(weights_2, values, sum_20);
                sum_30 = coopMultiplyAdd(weights_3, values, sum_30);
                if TILES > 1u {
                    let values = coopLoad<Right>(&cells[from_value + 1u * ROWS * PITCH], PITCH);
                    sum_01 = coopMultiplyAdd(weights_0, values, sum_01);
                    sum_11 = coopMultiplyAdd(weights_1, values, sum_11);
                    sum_21 = coopMultiplyAdd(weights_2, values, sum_21);
                    sum_31 = coopMultiplyAdd(weights_3, values, sum_31);
                }
                if TILES > 2u {
                    let values = coopLoad<Right>(&cells[from_value + 2u * ROWS * PITCH], PITCH);
                    sum_02 = coopMultiplyAdd(weights_0, values, sum_02);
                    sum_12 = coopMultiplyAdd(weights_1, values, sum_12);
                    sum_22 = coopMultiplyAdd(weights_2, values, sum_22);
                    sum_32 = coopMultiplyAdd(weights_3, values, sum_32);
                }
                if TILES > 3u {
                    let values = coopLoad<Right>(&cells[from_value + 3u * ROWS * PITCH], PITCH);
                    sum_03 = coopMultiplyAdd(weights_0, values, sum_03);
                    sum_13 = coopMultiplyAdd(weights_1, values, sum_13);
                    sum_23 = coopMultiplyAdd(weights_2, values, sum_23);
                    sum_33 = coopMultiplyAdd(weights_3, values, sum_33);
                }
            }
        }
        block.first += KEYS;
        block.first = select(block.first, block.first - p.capacity, block.first >= p.capacity);
        workgroupBarrier();
    }
    for (var width = 1u; width < SHARE; width *= 2u) {
        total += subgroupShuffleXor(total, width);
    }
    var most = base;
    if (p.flags & 2u) == 2u {
        let sink = load_sinks(query_row(work, row) % p.heads);
        most = max(base, sink);
        total = total * weight(base - most) + weight(sink - most);
    }
    if part == 0u {
        // Not `total != 0`, which is false of NaN too.
        kept[row] = select(weight(base - most) / total, 0.0, total == 0.0);
    }
    for (var pair = 0u; pair < 2u * TILES; pair++) {
        put_sums(sum_00, sum_10);
        store_sums(work, is_inside, pair);
        let top = sum_00;
        let bottom = sum_10;
        sum_00 = sum_20;
        sum_10 = sum_30;
        if TILES == 1u {
            sum_20 = top;
            sum_30 = bottom;
        }
        if TILES > 1u {
            sum_20 = sum_01;
            sum_30 = sum_11;
            sum_01 = sum_21;
            sum_11 = sum_31;
        }
        if TILES == 2u {
            sum_21 = top;
            sum_31 = bottom;
        }
        if TILES > 2u {
            sum_21 = sum_02;
            sum_31 = sum_12;
            sum_02 = sum_22;
            sum_12 = sum_32;
        }
        if TILES == 3u {
            sum_22 = top;
            sum_32 = bottom;
        }
        if TILES > 3u {
            sum_22 = sum_03;
            sum_32 = sum_13;
            sum_03 = sum_23;
            sum_13 = sum_33;
        }
        if TILES == 4u {
            sum_23 = top;
            sum_33 = bottom;
        }
    }
}
