fn store_$NAME(i: u32, v: f32) {
    put_$NAME(i, bitcast<u32>(v));
}
