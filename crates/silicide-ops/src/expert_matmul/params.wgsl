// Parameters of products with experts. A pair is a row of activations and one of the experts that it goes to.
struct Params {
    a_offset: u32,
    b_offset: u32,
    places_offset: u32,
    y_offset: u32,
    pairs: u32,
    // Pairs that share a row of activations.
    sharing: u32,
    // Of the weights: columns and experts that this launch sees, the first expert of them, and how many there are in all.
    columns: u32,
    k: u32,
    first: u32,
    seen: u32,
    experts: u32,
    // Of the output: elements from one pair to the next, and the first column of this launch.
    y_stride: u32,
    y_column: u32,
    // What outputs are where there is no such expert: the bits of NaN.
    blank: u32,
    // The most strips there can be.
    most: u32,
}
var<immediate> p: Params;

const NOT_SEEN: u32 = 0u;
const SEEN: u32 = 1u;
const UNKNOWN: u32 = 2u;

// What this launch does for an expert. The one that sees the first expert also blanks what has none.
fn kind_of(expert: u32) -> u32 {
    if expert >= p.experts {
        return select(NOT_SEEN, UNKNOWN, p.first == 0u);
    }
    // Wraps to a large number below the first.
    return select(NOT_SEEN, SEEN, expert - p.first < p.seen);
}
