// index = argmax(x). Elements are compared by their `key` (order.wgsl): exact, and NaN has its place.
struct RowState {
    index: u32,
}

// Key and index of the best element that each invocation has seen.
var<workgroup> best: array<vec2<u32>, WG>;

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    var mine = vec2<u32>(0u, 0u);
    for (var i = at.member; i < at.k; i += p.team) {
        let other = key(element(at, i));
        if other > mine.x {
            mine = vec2<u32>(other, i);
        }
    }
    best[lane] = mine;
    workgroupBarrier();
    for (var width = p.team / 2u; width > 0u; width = width / 2u) {
        if at.member < width {
            let other = best[lane + width];
            if other.x > mine.x || (other.x == mine.x && other.y < mine.y) {
                mine = other;
                best[lane] = mine;
            }
        }
        workgroupBarrier();
    }
    // The result of the team's first invocation is the row's.
    return RowState(mine.y);
}

fn write_result(row: u32, state: RowState) {
    put_index(row, state.index);
}
