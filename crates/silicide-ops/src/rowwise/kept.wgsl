// Rows of whole vectors of four, kept in registers: read once, whatever passes follow. Vector `c` of an invocation begins at column
// `kept_column(at, c)`.
override KEPT: u32 = 1;
var<private> kept: array<vec4<f32>, 8>;
// The column of the vector whose results are computed. Inputs with one element per column are read from there.
var<private> column: u32;

fn kept_column(at: TeamRow, c: u32) -> u32 {
    return (c * p.team + at.member) * 4u;
}

fn keep_row(at: TeamRow) {
    for (var c = 0u; c < KEPT; c++) {
        let i = kept_column(at, c);
        if i < at.k {
            kept[c] = elements(at, i);
        }
    }
}
