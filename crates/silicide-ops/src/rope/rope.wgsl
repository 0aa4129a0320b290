// Rotary embedding: (a, b) -> (a cos - b sin, b cos + a sin) for each pair of a head, by the table's angle for the token
// and the pair. Item i of a head is a pair or, past the pairs, an element that is copied.
struct Params {
    x_offset: u32,
    table_offset: u32,
    y_offset: u32,
    count: u32,
    heads: u32,
    dim: u32,
    pairs: u32,
    // 1 if pairs are of two halves, 0 if of neighbours.
    halves: u32,
}
var<immediate> p: Params;

fn element(i: u32) {
    let items = p.dim - p.pairs;
    let row = i / items;
    let item = i % items;
    let head = row * p.dim;
    if item >= p.pairs {
        let at = head + item + p.pairs;
        store_y(at, load_x(at));
        return;
    }
    let turn = (row / p.heads * p.pairs + item) * 2u;
    let c = load_table(turn);
    let s = load_table(turn + 1u);
    let at = head + select(2u * item, item, p.halves == 1u);
    let apart = select(1u, p.pairs, p.halves == 1u);
    let a = load_x(at);
    let b = load_x(at + apart);
    store_y(at, a * c - b * s);
    store_y(at + apart, b * c + a * s);
}
