// Rotary embedding: (a, b) -> (a cos - b sin, b cos + a sin) for each pair of a head, by the table's angle for the token
// and the pair. Item i of a head is a pair or, past the pairs, an element that is copied.
struct Params {
    x_offset: u32,
    table_offset: u32,
    y_offset: u32,
    count: u32,
}
var<immediate> p: Params;
// Heads of a token, and elements and pairs of a head: constants, so that items are not divided by parameters.
override HEADS: u32 = 1;
override DIM: u32 = 2;
override PAIRS: u32 = 1;
// 1 if pairs are of two halves, 0 if of neighbours.
override HALVES: u32 = 0;

fn element(i: u32) {
    let items = DIM - PAIRS;
    let row = i / items;
    let item = i % items;
    let head = row * DIM;
    if item >= PAIRS {
        let at = head + item + PAIRS;
        store_y(at, load_x(at));
        return;
    }
    let turn = (row / HEADS * PAIRS + item) * 2u;
    let c = load_table(turn);
    let s = load_table(turn + 1u);
    let at = head + select(2u * item, item, HALVES == 1u);
    let apart = select(1u, PAIRS, HALVES == 1u);
    let a = load_x(at);
    let b = load_x(at + apart);
    store_y(at, a * c - b * s);
    store_y(at + apart, b * c + a * s);
}
