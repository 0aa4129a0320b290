// One product.
fn multiply(group: u32, lane: u32) {
    project_one(group, lane);
}
