// The factors of whole results: one over the sums of weights, with sinks.
fn store_seen(work: Work, i: u32, largest: f32, sum: f32) {}

fn begin_rows(work: Work, largest: Rows, sum: Rows, lane: u32) -> Rows {
    var all = largest;
    var weighed = sum;
    if (p.flags & 2u) == 2u {
        let sink = sinks_of(work);
        all = max(largest, sink);
        weighed = sum * weights(largest - all) + weights(sink - all);
    }
    // Not `weighed != 0`, which is false of NaN too.
    return select(weights(largest - all) / weighed, Rows(), weighed == Rows());
}
