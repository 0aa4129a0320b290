//! Calls of `causal_conv`: fewer tokens than the state has and more, one channel and many, both activations.

use super::CausalConv;
use crate::case::{Case, Data, Input};
use silicide_quant::DType::F32;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |[sequences, tokens, channels, width]: [usize; 4], silu: bool, data: Data| {
        let label = format!("{sequences} x {tokens} x {channels}, {width} taps, silu {silu}");
        let inputs = vec![
            Input::of(F32, &[sequences, tokens, channels], data),
            Input::gaussian(F32, &[channels, width]),
            Input::gaussian(F32, &[sequences, channels, width - 1]),
        ];
        cases.push(Case::new(label, CausalConv { silu }, inputs));
    };
    let any = || Data::Gaussian { scale: 1.0 };
    add([1, 1, 1, 2], false, any());
    add([1, 1, 67, 4], true, any());
    add([2, 2, 64, 4], true, any());
    add([3, 17, 130, 4], true, any());
    add([1, 40, 5, 32], false, any());
    add([2, 70, 300, 3], true, Data::Gaussian { scale: 30.0 });
    cases
}
