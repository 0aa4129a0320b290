//! Calls of `binary`: every function, every way to repeat, mixed types, special values.

use super::Binary;
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// Paired with each other, turned by one against the other input.
const SPECIAL: [f64; 11] = [
    0.0,
    1.0,
    f64::NAN,
    -1.0,
    f64::INFINITY,
    2.0,
    f64::NEG_INFINITY,
    f64::INFINITY,
    f64::NAN,
    f64::NAN,
    1e-30,
];

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let (f32, f16, bf16) = (DType::F32, DType::F16, DType::BF16);
    for function in Binary::ALL {
        let mut add = |(left, a): (DType, &[usize]), (right, b): (DType, &[usize])| {
            let label = format!("{function:?} {left}{a:?} {right}{b:?}");
            // Away from zero on the right, so that quotients stay comparable.
            let right = Input::of(right, b, Data::Uniform { low: 0.5, high: 3.0 });
            cases.push(Case::new(label, function, vec![Input::gaussian(left, a), right]));
        };
        add((f32, &[5, 1021]), (f32, &[5, 1021]));
        add((f32, &[11, 333]), (f32, &[333]));
        add((f16, &[9, 517]), (f16, &[9, 517]));
        add((bf16, &[2, 3, 517]), (bf16, &[3, 517]));
        let mut turned = SPECIAL;
        turned.rotate_left(1);
        let special = [SPECIAL, turned].map(|values| Input::of(f32, &[11], Data::Values(values.to_vec())));
        cases.push(Case::new(format!("{function:?} special"), function, special.to_vec()));
    }
    let mut add = |function: Binary, (left, a): (DType, &[usize]), (right, b): (DType, &[usize])| {
        let label = format!("{function:?} {left}{a:?} {right}{b:?}");
        let right = Input::of(right, b, Data::Uniform { low: 0.5, high: 3.0 });
        cases.push(Case::new(label, function, vec![Input::gaussian(left, a), right]));
    };
    add(Binary::Add, (f32, &[1]), (f32, &[1]));
    add(Binary::Mul, (f32, &[3, 1000]), (f32, &[]));
    add(Binary::Sub, (f32, &[7]), (f32, &[311, 7]));
    add(Binary::Div, (f32, &[]), (f32, &[2, 129]));
    add(Binary::Add, (f32, &[4, 1, 63]), (f32, &[1, 1, 63]));
    add(Binary::Add, (f32, &[37, 2049]), (bf16, &[2049]));
    add(Binary::Add, (f32, &[17, 4001]), (f32, &[4001]));
    cases
}
