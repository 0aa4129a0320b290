// From planes to f32, f16 or bf16.
fn element(i: u32) {
    store_y(i, load_b(i));
}
