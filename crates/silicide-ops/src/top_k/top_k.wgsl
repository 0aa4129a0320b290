// The k largest elements of a row, the largest first, and their indices: a workgroup per row. Elements are compared by their
// `key`: exact, and NaN has its place. A radix select over digits of 8 bits finds the k-th key, then, among equal keys, the
// last index; what is selected is sorted.
struct Params {
    x_offset: u32,
    values_offset: u32,
    indices_offset: u32,
    rows: u32,
    columns: u32,
    k: u32,
}
var<immediate> p: Params;
override WG: u32 = 256;
// A power of two, at least k.
override ROOM: u32 = 1024;

var<workgroup> tally: array<atomic<u32>, 256>;
// The digit found last, the elements still to select among those that have it, and how many have it.
var<workgroup> digit: u32;
var<workgroup> missing: u32;
var<workgroup> alike: u32;
var<workgroup> taken: atomic<u32>;
// Keys and indices of the elements selected.
var<workgroup> best: array<vec2<u32>, ROOM>;

// Finds, from the top, the digit of the last element to select among those counted in `tally`.
fn find_digit(lane: u32) {
    workgroupBarrier();
    if lane == 0u {
        var left = missing;
        var i = 255u;
        while i > 0u && atomicLoad(&tally[i]) < left {
            left -= atomicLoad(&tally[i]);
            i--;
        }
        digit = i;
        missing = left;
        alike = atomicLoad(&tally[i]);
    }
    workgroupBarrier();
}

fn clear_tally(lane: u32) {
    workgroupBarrier();
    for (var i = lane; i < 256u; i += WG) {
        atomicStore(&tally[i], 0u);
    }
    workgroupBarrier();
}

// Whether the bits above a digit are those of the prefix; all are above the first digit.
fn matches(value: u32, prefix: u32, shift: u32) -> bool {
    return shift == 24u || (value >> (shift + 8u)) == (prefix >> (shift + 8u));
}

// Whether a belongs after b: larger keys first, then earlier places.
fn after(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x < b.x || (a.x == b.x && a.y > b.y);
}

fn compute_row(row: u32, lane: u32) {
    let base = row * p.columns;
    if lane == 0u {
        missing = p.k;
        atomicStore(&taken, 0u);
    }
    for (var i = lane; i < ROOM; i += WG) {
        best[i] = vec2<u32>(0u, 0xffffffffu);
    }
    // The k-th key.
    var last = 0u;
    for (var shift = 24u; shift < 32u; shift -= 8u) {
        clear_tally(lane);
        for (var i = lane; i < p.columns; i += WG) {
            let mine = key(load_x(base + i));
            if matches(mine, last, shift) {
                atomicAdd(&tally[(mine >> shift) & 0xffu], 1u);
            }
        }
        find_digit(lane);
        last |= digit << shift;
    }
    // Of the elements with that key the first are selected: the last index, inverted so that it is found alike.
    var inverse = 0u;
    if workgroupUniformLoad(&alike) > workgroupUniformLoad(&missing) {
        for (var shift = 24u; shift < 32u; shift -= 8u) {
            clear_tally(lane);
            for (var i = lane; i < p.columns; i += WG) {
                if key(load_x(base + i)) == last && matches(~i, inverse, shift) {
                    atomicAdd(&tally[(~i >> shift) & 0xffu], 1u);
                }
            }
            find_digit(lane);
            inverse |= digit << shift;
        }
    }
    for (var i = lane; i < p.columns; i += WG) {
        let mine = key(load_x(base + i));
        if mine > last || (mine == last && ~i >= inverse) {
            let place = atomicAdd(&taken, 1u);
            if place < ROOM {
                best[place] = vec2<u32>(mine, i);
            }
        }
    }
    // A bitonic sort.
    for (var size = 2u; size <= ROOM; size = size * 2u) {
        for (var apart = size / 2u; apart > 0u; apart = apart / 2u) {
            workgroupBarrier();
            for (var i = lane; i < ROOM; i += WG) {
                let other = i ^ apart;
                if other > i {
                    let down = (i & size) == 0u;
                    let a = best[i];
                    let b = best[other];
                    if after(a, b) == down {
                        best[i] = b;
                        best[other] = a;
                    }
                }
            }
        }
    }
    workgroupBarrier();
    for (var i = lane; i < p.k; i += WG) {
        let place = best[i].y;
        store_values(row * p.k + i, load_x(base + place));
        put_indices(row * p.k + i, place);
    }
}
