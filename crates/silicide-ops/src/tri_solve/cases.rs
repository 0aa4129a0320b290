//! Calls of `tri_solve`: one system and many, one column and more than a tile has, a shared right side, a garbage upper half.

use super::TriSolve;
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for [systems, right, n, columns] in
        [[1, 1, 1, 1], [1, 1, 3, 2], [5, 5, 4, 3], [2, 1, 64, 64], [3, 3, 17, 70], [1, 1, 100, 1]]
    {
        // The upper half is not read: NaN there must not show.
        let mut random = crate::case::Random::new(n as u64);
        let mut value = |i: usize| {
            let (row, column) = (i / n % n, i % n);
            let small = random.gaussian() / (n as f64).sqrt();
            if column < row { small } else { f64::NAN }
        };
        let l = Data::Values((0..systems * n * n).map(&mut value).collect());
        let inputs = vec![Input::of(F32, &[systems, n, n], l), Input::gaussian(F32, &[right, n, columns])];
        cases.push(Case::new(format!("{systems} x {n} x {columns}, {right} right sides"), TriSolve, inputs));
    }
    cases
}
