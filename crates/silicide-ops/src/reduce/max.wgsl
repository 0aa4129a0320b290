// y = max(x); NaN if the row has one.
struct RowState {
    largest: f32,
}

fn value(v: f32, row: RowState) -> f32 {
    return v;
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    // WGSL has no literal for -infinity: the maximum begins with the first element.
    var least = 0.0;
    if at.k > 0u {
        least = element(at, 0u);
    }
    return RowState(max_value(at, RowState(), least, lane));
}

fn write_result(row: u32, state: RowState) {
    store_y(row, state.largest);
}
