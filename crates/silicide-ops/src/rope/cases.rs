//! Calls of `rope`: both styles, all of a head and a part of it, one token and many, odd sizes.

use super::{Rope, RopeStyle};
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for style in [RopeStyle::Interleaved, RopeStyle::Halves] {
        let mut add = |[tokens, heads, dim]: [usize; 3], pairs: usize, scale: f64| {
            let label = format!("{style:?} {tokens} x {heads} x {dim}, {pairs} pairs, scale {scale}");
            let turns = Data::Uniform { low: -1.0, high: 1.0 };
            let x = Input::of(F32, &[tokens, heads, dim], Data::Gaussian { scale });
            let inputs = vec![x, Input::of(F32, &[tokens, pairs, 2], turns)];
            cases.push(Case::new(label, Rope { style }, inputs));
        };
        add([1, 1, 2], 1, 1.0);
        add([1, 9, 64], 32, 1.0);
        add([17, 3, 64], 32, 1.0);
        add([5, 2, 80], 16, 1.0);
        add([3, 5, 7], 2, 1.0);
        add([2, 1, 1030], 513, 1.0);
        add([37, 8, 128], 64, 1e4);
    }
    cases
}
