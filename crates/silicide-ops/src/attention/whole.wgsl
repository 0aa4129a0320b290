// All keys were one run: the results are whole but for the sink.
fn begin_row(work: Work, i: u32, mine: Mine, lane: u32) -> Target {
    let row = query_row(work, i);
    var largest = mine.largest;
    var sum = mine.sum;
    if (p.flags & 2u) == 2u {
        let sink = load_sinks(row % p.heads);
        largest = larger(largest, sink);
        sum = sum * weight(mine.largest - largest) + weight(sink - largest);
    }
    // Not `sum != 0`, which is false of NaN too.
    let factor = select(weight(mine.largest - largest) / sum, 0.0, sum == 0.0);
    return Target(row * p.value_dim, factor);
}
