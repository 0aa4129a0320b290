//! Calls of `hadamard`: every length, both directions, one row and many.

use super::Hadamard;
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for inverse in [false, true] {
        for (axes, scale) in [
            (&[1usize, 9, 64][..], 1.0),
            (&[32], 1.0),
            (&[7, 5, 32], 1e-3),
            (&[33, 3, 128], 1.0),
            (&[2, 4, 256], 1e4),
            (&[3, 1, 512], 1.0),
            (&[300, 3, 64], 1.0),
        ] {
            let label = format!("{axes:?}, {}, scale {scale}", if inverse { "back" } else { "forth" });
            let x = Input::of(DType::F32, axes, Data::Gaussian { scale });
            cases.push(Case::new(label, Hadamard { inverse }, vec![x]));
        }
    }
    cases
}
