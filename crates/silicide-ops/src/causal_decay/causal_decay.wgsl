// y[i][j] = x[i][j] * exp(g[i] - g[j]) for j < i + diagonal, and 0 elsewhere.
struct Params {
    x_offset: u32,
    g_offset: u32,
    y_offset: u32,
    count: u32,
    groups: u32,
    heads: u32,
    n: u32,
    diagonal: u32,
}
var<immediate> p: Params;

fn element(at: u32) {
    let row = at / p.n;
    let j = at % p.n;
    let of_head = row / p.n;
    let i = row % p.n;
    if j >= i + p.diagonal {
        store_y(at, 0.0);
        return;
    }
    let group = of_head / p.heads * p.groups + of_head % p.heads / (p.heads / p.groups);
    let decay = exp(load_g(of_head * p.n + i) - load_g(of_head * p.n + j));
    store_y(at, load_x((group * p.n + i) * p.n + j) * decay);
}
