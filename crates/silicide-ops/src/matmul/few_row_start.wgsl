// The first element of a row; rows past the last are the last again.
fn row_start(row: u32) -> u32 {
    return min(row, p.rows - 1u) * p.k;
}
