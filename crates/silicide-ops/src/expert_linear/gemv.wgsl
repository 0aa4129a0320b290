// y[pair] = weights[ids[pair]] · a[pair / sharing], pair by pair. A workgroup is WG / TEAM teams of TEAM neighbouring
// invocations, a power of two; a team has four columns of one pair. An invocation multiplies sixteen weights of each column
// at a time. `few_shared.wgsl` or `few_subgroup.wgsl` adds the sums of a team and has the entry point; `places` are the ids.
override WG: u32 = 64;
override TEAM: u32 = 8;

const COLUMNS: u32 = 4u;

fn product(weights: mat4x4<f32>, x: mat4x4<f32>) -> f32 {
    let low = dot(weights[0], x[0]) + dot(weights[1], x[1]);
    return low + (dot(weights[2], x[2]) + dot(weights[3], x[3]));
}

// The sixteen elements of a row that `sixteen_b` has the weights of.
fn activations(at: u32) -> mat4x4<f32> {
    let far = at + SPREAD_b;
    return mat4x4<f32>(
        load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u),
        load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u),
        load_a(far), load_a(far + 1u), load_a(far + 2u), load_a(far + 3u),
        load_a(far + 4u), load_a(far + 5u), load_a(far + 6u), load_a(far + 7u),
    );
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
    let b = (vec4<u32>((expert - p.first) * p.columns) + columns) * p.k;
    var sums = vec4<f32>();
    let eights = SPREAD_b / 8u;
    for (var i = lane % TEAM; i < k / 16u; i += TEAM) {
        let at = i / eights * (SPREAD_b * 2u) + i % eights * 8u;
        let row = activations(a + at);
        sums += vec4<f32>(
            product(sixteen_b(b.x + at), row), product(sixteen_b(b.y + at), row),
            product(sixteen_b(b.z + at), row), product(sixteen_b(b.w + at), row),
        );
    }
    // Depths that are not whole sixteens, which block formats never have.
    for (var i = k / 16u * 16u + lane % TEAM; i < k; i += TEAM) {
        sums += vec4<f32>(load_b(b.x + i), load_b(b.y + i), load_b(b.z + i), load_b(b.w + i)) * load_a(a + i);
    }
    sums = team_sums(sums, lane);
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
