// y = weights[ids] · a for pairs grouped by expert: a workgroup computes the pairs of a strip and 32 columns of its expert, as a
// square of `tiled_square.wgsl` whose rows are the pairs. `places` are the groups.

// Where the activations of the strip's pairs begin; past the last pair it is the last one's.
var<workgroup> starts: array<u32, 32>;

// What fills need of the activations, as in `fill_rows.wgsl`.
fn start_a(tile: Tile, row: u32) -> u32 {
    return starts[row];
}

fn store_row(place: u32, column: u32, values: vec4<f32>) {
    let at = min(get_places(place), p.pairs - 1u) * p.y_stride + p.y_column + column;
    for (var i = 0u; i < 4u && column + i < p.columns; i++) {
        store_y(at + i, values[i]);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let across = (p.columns + 31u) / 32u;
    let number = linear_group(group, groups);
    let strip = number / across;
    // The same for the whole workgroup.
    if strip >= min(p.most, get_places(0u)) {
        return;
    }
    let expert = get_places(1u + 3u * strip);
    let kind = kind_of(expert);
    if kind == NOT_SEEN {
        return;
    }
    // Whatever the groups say, places and pairs stay below the number of pairs.
    let first_place = min(get_places(2u + 3u * strip), p.pairs);
    let first = 1u + 3u * p.most + first_place;
    let pairs = min(get_places(3u + 3u * strip), p.pairs - first_place);
    if pairs == 0u {
        return;
    }
    let tile = Tile(0u, (expert - p.first) * p.pitch * p.k, 0u, 0u, number % across * 32u, p.columns);
    if lane < 32u {
        let pair = min(get_places(first + min(lane, pairs - 1u)), p.pairs - 1u);
        starts[lane] = pair / p.sharing * p.k;
    }
    workgroupBarrier();
    let blank = vec4<f32>(bitcast<f32>(p.blank));
    var sum_0 = blank;
    var sum_1 = blank;
    var sum_2 = blank;
    var sum_3 = blank;
    if kind == SEEN {
        let square = square_b(tile, lane);
        sum_0 = square.sum_0;
        sum_1 = square.sum_1;
        sum_2 = square.sum_2;
        sum_3 = square.sum_3;
    }
    let row = lane / SIDE * 4u;
    let column = tile.column + lane % SIDE * 4u;
    if row < pairs {
        store_row(first + row, column, sum_0);
    }
    if row + 1u < pairs {
        store_row(first + row + 1u, column, sum_1);
    }
    if row + 2u < pairs {
        store_row(first + row + 2u, column, sum_2);
    }
    if row + 3u < pairs {
        store_row(first + row + 3u, column, sum_3);
    }
}
