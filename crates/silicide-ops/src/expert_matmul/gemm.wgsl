// y = weights[ids] · x for pairs grouped by expert. A workgroup of 8 x 8 invocations computes a square of outputs: the pairs of a
// strip and 32 columns of its expert, 4 x 4 in the registers of each invocation; the depth passes through shared memory STEP at a
// time. Another part, `fill`, says how many elements are read at a time; `places` are the groups.
override WG: u32 = 64;

const SIDE: u32 = 8u;
const STEP: u32 = 16u;
// One cell more than a side of the square, so that neighbours in depth lie in different banks.
const PITCH: u32 = 9u;

// Cell [depth][quad]: four rows, or four columns, at one depth.
var<workgroup> a_cells: array<vec4<f32>, 144>;
var<workgroup> b_cells: array<vec4<f32>, 144>;
// Where the activations of the strip's pairs begin; past the last pair it is the last one's.
var<workgroup> starts: array<u32, 32>;

// Where the weights of the square's expert begin, its first column, and the pairs of the strip.
struct Square {
    b: u32,
    column: u32,
    pairs: u32,
}

fn store_row(place: u32, column: u32, values: vec4<f32>) {
    let at = get_places(place) * p.y_stride + p.y_column + column;
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
    let first = 1u + 3u * p.most + get_places(2u + 3u * strip);
    let pairs = get_places(3u + 3u * strip);
    let square = Square((expert - p.first) * p.columns * p.k, number % across * 32u, pairs);
    let x = lane % SIDE;
    let y = lane / SIDE;
    if lane < 32u {
        starts[lane] = get_places(first + min(lane, pairs - 1u)) / p.sharing * p.k;
    }
    workgroupBarrier();
    var sum_0 = vec4<f32>();
    var sum_1 = vec4<f32>();
    var sum_2 = vec4<f32>();
    var sum_3 = vec4<f32>();
    let k = select(0u, p.k, kind == SEEN);
    for (var start = 0u; start < k; start += STEP) {
        fill(square, start, lane);
        workgroupBarrier();
        for (var depth = 0u; depth < STEP; depth++) {
            let rows = a_cells[depth * PITCH + y];
            let columns = b_cells[depth * PITCH + x];
            sum_0 += rows.x * columns;
            sum_1 += rows.y * columns;
            sum_2 += rows.z * columns;
            sum_3 += rows.w * columns;
        }
        workgroupBarrier();
    }
    if kind == UNKNOWN {
        sum_0 = vec4<f32>(bitcast<f32>(p.blank));
        sum_1 = sum_0;
        sum_2 = sum_0;
        sum_3 = sum_0;
    }
    let row = y * 4u;
    let column = square.column + x * 4u;
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
