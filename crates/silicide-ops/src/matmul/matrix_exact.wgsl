
// The product of a row of the activations and a column of `$NAME`, in f32: for depths of whole steps.
fn exact_$NAME(row: u32, column: u32) -> f32 {
    var sums = vec4<f32>();
    for (var i = 0u; i < p.k; i += 8u) {
        let weights = eight_$NAME(column + i);
        let at = row + i;
        sums += weights[0] * vec4<f32>(load_a(at), load_a(at + 1u), load_a(at + 2u), load_a(at + 3u));
        sums += weights[1] * vec4<f32>(load_a(at + 4u), load_a(at + 5u), load_a(at + 6u), load_a(at + 7u));
    }
    return (sums.x + sums.y) + (sums.z + sums.w);
}
