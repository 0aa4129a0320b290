// x[i] = b[i] - sum over j < i of l[i][j] * x[j], for one column of one system.
struct Params {
    l_offset: u32,
    b_offset: u32,
    x_offset: u32,
    count: u32,
    n: u32,
    columns: u32,
    one_b: u32,
}
var<immediate> p: Params;

fn element(item: u32) {
    let system = item / p.columns;
    let column = item % p.columns;
    for (var i = 0u; i < p.n; i++) {
        let row = system * p.n + i;
        var sum = load_b(select(row, i, p.one_b != 0u) * p.columns + column);
        for (var j = 0u; j < i; j++) {
            // This invocation wrote it.
            let above = bitcast<f32>(x[p.x_offset + (system * p.n + j) * p.columns + column]);
            sum -= load_l(row * p.n + j) * above;
        }
        store_x(row * p.columns + column, sum);
    }
}
