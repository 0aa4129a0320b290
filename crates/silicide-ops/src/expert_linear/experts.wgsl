// The part of a launch for one expert. Parameters `first` and `seen` are the experts whose weights it sees, of `experts` in all.
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
