// y = activation(first product) * second product. The invocation that stores an element of the first product to y reads it
// back when it stores the same element of the second.
fn store_y_two(i: u32, v: f32) {
    let gate = bitcast<f32>(y_one[p.y_one_offset + i]);
    store_y_one(i, activate(p.kind, gate) * v);
}

fn multiply(group: u32, lane: u32) {
    product_one(group, lane);
    product_two(group, lane);
}
