// Adds the products of sixteen weights of each column with the activations of every row from `at` on, which `row_activations_$NAME`
// reads, to the sums of the rows.
fn add_rows_$NAME(sums: ptr<function, Sums>, weights: Weights, at: u32) {
    (*sums).row_0 = add_values((*sums).row_0, weights, row_activations_$NAME(at, 0u));
    if ROWS > 1u {
        (*sums).row_1 = add_values((*sums).row_1, weights, row_activations_$NAME(at, 1u));
    }
    if ROWS > 2u {
        (*sums).row_2 = add_values((*sums).row_2, weights, row_activations_$NAME(at, 2u));
        (*sums).row_3 = add_values((*sums).row_3, weights, row_activations_$NAME(at, 3u));
    }
    if ROWS > 4u {
        (*sums).row_4 = add_values((*sums).row_4, weights, row_activations_$NAME(at, 4u));
        (*sums).row_5 = add_values((*sums).row_5, weights, row_activations_$NAME(at, 5u));
        (*sums).row_6 = add_values((*sums).row_6, weights, row_activations_$NAME(at, 6u));
        (*sums).row_7 = add_values((*sums).row_7, weights, row_activations_$NAME(at, 7u));
    }
}

