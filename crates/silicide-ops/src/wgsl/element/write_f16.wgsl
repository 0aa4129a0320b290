// Rounds as `narrow_$NAME` does.
fn store_$NAME(i: u32, v: f32) {
    put_$NAME(i, narrow_$NAME(v));
}
