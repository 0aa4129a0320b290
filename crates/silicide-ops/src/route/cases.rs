//! Calls of `route`: every gate, with and without sums of one, scales and biases, ties, special values.

use super::{Gate, Route};
use crate::{Case, Data, Input};
use silicide_quant::DType::F32;

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |label: &str, route: Route, logits: Input| {
        let experts = logits.shape.last();
        let Route { used, gate, normalized, scale, biased } = route;
        let label = format!("{label}, {used} of {}, {gate:?} {normalized} {scale} {biased}", logits.shape);
        let mut inputs = vec![logits];
        if biased {
            inputs.push(Input::gaussian(F32, &[experts]));
        }
        cases.push(Case::new(label, route, inputs));
    };
    for gate in [Gate::Softmax, Gate::Sigmoid, Gate::SoftmaxOfChosen] {
        for (normalized, scale, biased) in
            [(false, 1.0, false), (true, 1.0, false), (true, 2.5, true), (false, 0.5, true)]
        {
            let route = Route { used: 8, gate, normalized, scale, biased };
            add("any", route, Input::gaussian(F32, &[5, 128]));
        }
        let route = Route { gate, ..Route::softmax(2) };
        add("ties", route, Input::of(F32, &[9, 33], Data::Indices { below: 3 }));
        add(
            "all alike",
            Route { gate, ..Route::softmax(5) },
            Input::of(F32, &[2, 7], Data::Values(vec![0.25])),
        );
    }
    for (rows, experts, used) in [(1, 1, 1), (7, 8, 2), (1, 32, 4), (40, 32, 32), (3, 1024, 70), (2, 300, 1)]
    {
        add("any", Route::softmax(used), Input::gaussian(F32, &[rows, experts]));
    }
    add("a vector", Route::softmax(3), Input::gaussian(F32, &[17]));
    add("batches", Route::softmax(3), Input::gaussian(F32, &[2, 3, 17]));
    add("zeros of both signs", Route::softmax(4), Input::of(F32, &[3, 9], Data::Values(vec![-0.0, 0.0])));
    // Sums that are too small to divide by.
    let unwanted = Route { gate: Gate::Sigmoid, ..Route::softmax(3) };
    add("far below", unwanted, Input::of(F32, &[2, 9], Data::Values(vec![-60.0, -61.0, -62.0])));
    let far = Data::Gaussian { scale: 60.0 };
    add("far apart", Route::softmax(6), Input::of(F32, &[4, 65], far));
    for gate in [Gate::Softmax, Gate::Sigmoid, Gate::SoftmaxOfChosen] {
        let mut special: Vec<f64> = (0..5 * 33).map(|i| f64::from(i % 7)).collect();
        special[45] = -f64::NAN;
        special[50] = f64::NAN;
        special[70] = f64::NEG_INFINITY;
        special[99..132].fill(f64::NEG_INFINITY);
        let route = Route { gate, normalized: false, ..Route::softmax(4) };
        add("not a number and infinities", route, Input::of(F32, &[5, 33], Data::Values(special)));
    }
    cases
}
