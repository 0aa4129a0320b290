// y[pair] = weights[ids[pair]] · a[pair / sharing], pair by pair: a GEMV of `few_rows.wgsl` with one row, whose team has COLUMNS
// columns of one pair. `places` are the ids.

// There is one row.
fn row_start(row: u32) -> u32 {
    return 0u;
}

// The work of invocation `lane` of a workgroup.
fn multiply(group: u32, lane: u32) {
    let across = (p.columns + COLUMNS - 1u) / COLUMNS;
    let number = group * (WG / TEAM) + lane / TEAM;
    let pair = number / across;
    let column = number % across * COLUMNS;
    // A team without a pair, or whose expert is not here, sums over no depth: it only takes part in barriers.
    var expert = 0u;
    var kind = NOT_SEEN;
    if pair < p.pairs {
        expert = get_places(pair);
        kind = kind_of(expert);
    }
    let k = select(0u, p.k, kind == SEEN);
    let a = pair / p.sharing * p.k;
    // Columns past the last are the last again.
    let columns = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.columns - 1u));
    let b = (vec4<u32>((expert - p.first) * p.pitch) + columns) * p.k;
    var sums = sums_b(lane, k, a, b).row_0;
    if kind == UNKNOWN {
        sums = vec4<f32>(bitcast<f32>(p.blank));
    }
    if kind != NOT_SEEN && lane % TEAM == 0u {
        let y = pair * p.y_stride + p.y_column + column;
        for (var i = 0u; i < COLUMNS && column + i < p.columns; i++) {
            store_y(y + i, sums[i]);
        }
    }
}
