// y = sum(x).
struct RowState {
    sum: f32,
}

fn value(v: f32, row: RowState) -> f32 {
    return v;
}

fn reduce_row(at: TeamRow, lane: u32) -> RowState {
    return RowState(sum_value(at, RowState(), lane));
}

fn write_result(row: u32, state: RowState) {
    store_y(row, state.sum);
}
