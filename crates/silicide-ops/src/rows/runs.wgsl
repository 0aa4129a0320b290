// Where the run of a row of `k` elements that begins at `start` ends: 16 elements for each invocation.
fn run_end(start: u32, k: u32) -> u32 {
    return min(start + WG * 16u, k);
}
