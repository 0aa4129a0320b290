//! Calls of `masked_attention`: trees of drafted tokens, causal masks, masks by head, bytes, queries that see nothing, sinks, every type, NaN under the mask.

use super::MaskedAttention;
use crate::case::{Case, Data, Input, Random};
use silicide_quant::DType::{self, BF16, F16, F32, U8};

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |[tokens, keys, capacity]: [usize; 3],
                   [heads, kv_heads]: [usize; 2],
                   [dim, value_dim]: [usize; 2],
                   [cache, masks]: [DType; 2],
                   [by_head, sinks]: [bool; 2]| {
        let label = format!(
            "{tokens} of {keys} in {capacity}, heads {heads} of {kv_heads}, {dim} and {value_dim}, {cache}, mask {masks}, \
             by head {by_head}, sinks {sinks}"
        );
        let mut random = Random::new(keys as u64);
        let rows = if by_head { heads * tokens } else { tokens };
        // About half is hidden, and the last query sees nothing.
        let mut value = |i: usize| {
            let hidden = random.unit() < 0.5 || (tokens > 1 && i / keys % tokens == tokens - 1);
            match (masks, hidden) {
                (U8, hidden) => f64::from(u8::from(!hidden)),
                (_, true) => f64::NEG_INFINITY,
                (_, false) => 2.0 * random.unit() - 1.0,
            }
        };
        let mask = Data::Values((0..rows * keys).map(&mut value).collect());
        let axes = if by_head { vec![heads, tokens, keys] } else { vec![tokens, keys] };
        // Slots past the keys are NaN.
        let mut slots = |dim: usize| {
            let mut element = |i: usize| {
                if i / dim % capacity < keys { random.gaussian() } else { f64::NAN }
            };
            Data::Values((0..kv_heads * capacity * dim).map(&mut element).collect())
        };
        let mut inputs = vec![
            Input::gaussian(F32, &[tokens, heads, dim]),
            Input::of(cache, &[kv_heads, capacity, dim], slots(dim)),
            Input::of(cache, &[kv_heads, capacity, value_dim], slots(value_dim)),
            Input::of(masks, &axes, mask),
        ];
        if sinks {
            inputs.push(Input::gaussian(F32, &[heads]));
        }
        let op = MaskedAttention { scale: 1.0 / (dim as f32).sqrt(), sinks };
        cases.push(Case::new(label, op, inputs));
    };
    add([1, 1, 1], [1, 1], [1, 1], [F32, F32], [false, false]);
    add([5, 70, 75], [4, 2], [64, 64], [F16, F32], [false, false]);
    add([3, 300, 300], [2, 1], [128, 128], [BF16, BF16], [false, true]);
    add([2, 130, 140], [3, 3], [80, 24], [F32, F16], [true, false]);
    add([7, 33, 40], [6, 2], [256, 256], [F16, U8], [false, true]);
    add([1, 513, 520], [2, 2], [576, 512], [F16, F32], [true, true]);
    for (keys, values) in [(F16, BF16), (F32, F16), (BF16, F32)] {
        cases.extend([U8, F16].map(|masks| tree([keys, values], masks)));
    }
    cases
}

/// A tree of drafted tokens after a prefix: a token sees the prefix, itself and its ancestors. Keys and values have types of their own.
fn tree([keys, values]: [DType; 2], masks: DType) -> Case {
    const PARENTS: [Option<usize>; 7] = [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(5)];
    const PREFIX: usize = 66;
    let (tokens, all, capacity) = (PARENTS.len(), PREFIX + PARENTS.len(), PREFIX + 9);
    let sees = |token: usize, key: usize| {
        let ancestors = std::iter::successors(Some(token), |&token| PARENTS.get(token).copied().flatten());
        key < PREFIX || ancestors.into_iter().any(|ancestor| PREFIX + ancestor == key)
    };
    let value = |i: usize| match (masks, sees(i / all, i % all)) {
        (U8, seen) => f64::from(u8::from(seen)),
        (_, true) => 0.0,
        (_, false) => f64::NEG_INFINITY,
    };
    let (heads, kv_heads, dim) = (4, 2, 64);
    let inputs = vec![
        Input::gaussian(F32, &[tokens, heads, dim]),
        Input::gaussian(keys, &[kv_heads, capacity, dim]),
        Input::gaussian(values, &[kv_heads, capacity, dim]),
        Input::of(masks, &[tokens, all], Data::Values((0..tokens * all).map(value).collect())),
    ];
    let label = format!("a tree of {tokens} after {PREFIX}, keys {keys}, values {values}, mask {masks}");
    Case::new(label, MaskedAttention { scale: 0.125, sinks: false }, inputs)
}
