//! Calls of `delta_net`: one token and many, heads that share keys in both ways, odd lengths of heads, several sequences.

use super::{DeltaNet, KeyHeads};
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add =
        |[sequences, tokens]: [usize; 2], heads: [usize; 2], dims: [usize; 2], key_heads: KeyHeads| {
            let ([of_keys, of_values], [key_dim, value_dim]) = (heads, dims);
            let label = format!("{sequences} x {tokens}, heads {heads:?} of {dims:?}, {key_heads:?}");
            // Keys of about unit length, as models norm them; otherwise the state grows without bound.
            let keys = || Data::Gaussian { scale: 1.0 / (key_dim as f64).sqrt() };
            let inputs = vec![
                Input::of(F32, &[sequences, tokens, of_keys, key_dim], keys()),
                Input::of(F32, &[sequences, tokens, of_keys, key_dim], keys()),
                Input::gaussian(F32, &[sequences, tokens, of_values, value_dim]),
                Input::of(F32, &[sequences, tokens, of_values], Data::Uniform { low: -2.0, high: 0.0 }),
                Input::of(F32, &[sequences, tokens, of_values], Data::Uniform { low: 0.0, high: 1.0 }),
                Input::gaussian(F32, &[sequences, of_values, value_dim, key_dim]),
            ];
            let rule = DeltaNet { scale: 1.0 / (key_dim as f32).sqrt(), key_heads };
            cases.push(Case::new(label, rule, inputs));
        };
    add([1, 1], [1, 1], [1, 1], KeyHeads::Grouped);
    add([1, 1], [2, 4], [128, 128], KeyHeads::Grouped);
    add([2, 5], [2, 6], [64, 33], KeyHeads::Tiled);
    add([1, 40], [1, 2], [32, 16], KeyHeads::Grouped);
    add([3, 7], [3, 3], [37, 20], KeyHeads::Tiled);
    add([1, 3], [1, 2], [256, 17], KeyHeads::Grouped);
    cases
}
