// y = weights[ids] · a for pairs grouped by expert, in matrices: a workgroup computes the pairs of a strip and TILE columns of its
// expert, as a tile of `matmul/matrix_square.wgsl` whose rows are the pairs. `places` are the groups.

// Where the activations of the strip's pairs begin; past the last pair it is the last one's.
var<workgroup> starts: array<u32, TILE>;
// The first place of the strip's pairs, and their number.
var<private> strip_first: u32;
var<private> strip_pairs: u32;
// What the launch does for the strip's expert.
var<private> strip_kind: u32;

fn start_a(tile: Tile, row: u32) -> u32 {
    return starts[row];
}

fn keep_four_b(tile: Tile, place: vec2<u32>, sums: vec4<f32>) {
    if place.x >= strip_pairs {
        return;
    }
    let values = select(sums, vec4<f32>(bitcast<f32>(p.blank)), strip_kind == UNKNOWN);
    let pair = min(get_places(strip_first + place.x), p.pairs - 1u);
    let column = tile.column + place.y;
    let at = pair * p.y_stride + p.y_column + column;
    for (var i = 0u; i < 4u && column + i < p.columns; i++) {
        store_y(at + i, values[i]);
    }
}

fn multiply(group: u32, lane: u32) {
    let across = (p.columns + TILE - 1u) / TILE;
    let strip = group / across;
    // The same for the whole workgroup.
    if strip >= min(p.most, get_places(0u)) {
        return;
    }
    let expert = get_places(1u + 3u * strip);
    strip_kind = kind_of(expert);
    if strip_kind == NOT_SEEN {
        return;
    }
    // Whatever the groups say, places and pairs stay below the number of pairs.
    let first_place = min(get_places(2u + 3u * strip), p.pairs);
    strip_first = 1u + 3u * p.most + first_place;
    strip_pairs = min(get_places(3u + 3u * strip), p.pairs - first_place);
    if strip_pairs == 0u {
        return;
    }
    for (var i = lane; i < TILE; i += WG) {
        let pair = min(get_places(strip_first + min(i, strip_pairs - 1u)), p.pairs - 1u);
        starts[i] = pair / p.sharing * p.k;
    }
    workgroupBarrier();
    let weights = (expert - p.first) * p.pitch * p.k;
    let tile = Tile(0u, weights, 0u, 0u, group % across * TILE, p.columns);
    multiply_b(tile, select(0u, p.k, strip_kind == SEEN), lane);
}
