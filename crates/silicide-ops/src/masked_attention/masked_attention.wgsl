    y_offset: u32,
    rows: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    dim: u32,
    value_dim: u32,
    capacity: u32,
    keys: u32,
    by_head: u32,
    scale: u32,
}
var<immediate> p: Params;
override WG: u32 = 256u;

// y = sum of softmax(scale q . k + mask)[j] v[j]: WG keys at a time, relative to the largest score so far. Invocations are keys while
// scores are made, and elements lane, lane + WG, ... of values while these are summed.
var<workgroup> query: array<f32, 576>;
var<workgroup> weights: array<f32, WG>;

fn compute_row(row: u32, lane: u32) {
    let token = row / p.heads;
    let head = row % p.heads;
    let first = head / (p.heads / p.kv_heads) * p.capacity;
    let mask_row = select(token, head * p.tokens + token, p.by_head != 0u) * p.keys;
    let scale = bitcast<f32>(p.scale);
    for (var i = lane; i < p.dim; i += WG) {
        query[i] = load_q(row * p.dim + i);
    }
    var sums: array<f32, 8>;
    for (var i = 0u; i < 8u; i++) {
        sums[i] = 0.0;
    }
    var largest = LOWEST;
    var total = 0.0;
    for (var start = 0u; start < p.keys; start += WG) {
        // The query is there, and the last weights are not read any more.
        workgroupBarrier();
        let key = start + lane;
        var seen = false;
        if key < p.keys {
            seen = shown(mask_row + key);
        }
        var score = LOWEST;
        if seen {
            var product = 0.0;
            let at = (first + key) * p.dim;
            for (var i = 0u; i < p.dim; i++) {
                product += query[i] * load_k(at + i);
            }
            score = scale * product + added(mask_row + key);
        }
        let best = larger(largest, team_max(score, lane, WG));
        let factor = weight(largest - best);
        largest = best;
        var own = 0.0;
        if seen {
            own = weight(score - best);
        }
        weights[lane] = own;
        total = total * factor + team_sum(own, lane, WG);
        let count = min(WG, p.keys - start);
        for (var i = 0u; i < 8u; i++) {
            let column = lane + i * WG;
            if column < p.value_dim {
                var sum = sums[i] * factor;
                for (var j = 0u; j < count; j++) {
                    let w = weights[j];
                    // A value that is not seen may be NaN.
                    if w != 0.0 {
                        sum += w * load_v((first + start + j) * p.value_dim + column);
                    }
                }
                sums[i] = sum;
            }
        }
    }
    var final_factor = 1.0;
    if HAS_SINK {
        let best = larger(largest, sink(head));
        final_factor = weight(largest - best);
        total = total * final_factor + weight(sink(head) - best);
    }
    final_factor = select(final_factor / total, 0.0, total == 0.0);
    for (var i = 0u; i < 8u; i++) {
        let column = lane + i * WG;
        if column < p.value_dim {
            store_y(row * p.value_dim + column, sums[i] * final_factor);
        }
    }
}
