// y[g][column] = sum over row of weights[g][row] * x[g][row][column], for groups of `rows` rows of `n` elements.
struct Params { x_offset: u32, weights_offset: u32, y_offset: u32, count: u32, rows: u32, n: u32 }
var<immediate> p: Params;

fn element(i: u32) {
    let first = i / p.n * p.rows;
    let column = i % p.n;
    var sum = 0.0;
    for (var row = first; row < first + p.rows; row++) {
        sum += load_weights(row) * load_x(row * p.n + column);
    }
    store_y(i, sum);
}
