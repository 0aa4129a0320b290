//! Calls of `causal_decay`: heads that share groups, one token and a chunk of 64, sums whose differences overflow above the diagonal.

use super::CausalDecay;
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for ([chunks, groups, heads, n], diagonal) in
        [([1, 1, 1, 1], true), ([2, 1, 3, 5], false), ([3, 2, 4, 64], true), ([1, 2, 2, 70], false)]
    {
        // Falling sums, by up to 3 for each token: exp(g[i] - g[j]) above the diagonal is up to exp(3 n).
        let mut random = crate::case::Random::new(n as u64);
        let mut sum = 0.0;
        let mut fall = |i: usize| {
            sum = if i.is_multiple_of(n) { 0.0 } else { sum - 3.0 * random.unit() };
            sum
        };
        let sums = Data::Values((0..chunks * heads * n).map(&mut fall).collect());
        let inputs =
            vec![Input::gaussian(F32, &[chunks, groups, n, n]), Input::of(F32, &[chunks, heads, n], sums)];
        let label = format!("{chunks} x {heads} of {groups}, {n}, diagonal {diagonal}");
        cases.push(Case::new(label, CausalDecay { diagonal }, inputs));
    }
    cases
}
