// y[i] = x[i] for the argument `$NAME`: from any type that can be loaded as f32 to f32, f16 or bf16.
fn element(i: u32) {
    store_y(i, load_$NAME(i));
}
