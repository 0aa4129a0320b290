//! Calls of `softmax` to try.

use super::Softmax;
use crate::rowwise::cases::common;
use crate::{Case, Data, Input};
use silicide_quant::DType::{BF16, F16, F32};

const INF: f64 = f64::INFINITY;

/// Every case.
pub fn cases() -> Vec<Case> {
    let plain = Softmax { scale: 1.0, masked: false };
    let masked = Softmax { scale: 0.125, masked: true };
    let mut cases = common("", plain);
    let scaled = Softmax { scale: 0.7, ..plain };
    cases.push(Case::new("scaled", scaled, vec![Input::gaussian(F32, &[7, 577])]));
    cases.push(Case::new(
        "causal mask for three heads",
        masked,
        vec![Input::gaussian(F32, &[3, 7, 65]), Input::of(F32, &[7, 65], causal(7, 65))],
    ));
    cases.push(Case::new(
        "one mask for every row",
        masked,
        vec![Input::gaussian(F32, &[2, 5, 33]), Input::gaussian(F32, &[33])],
    ));
    let inputs = vec![Input::gaussian(F32, &[2, 5, 33]), Input::gaussian(F32, &[2, 5, 33])];
    cases.push(Case::new("a mask for each row", masked, inputs));
    let rows = Data::Values([-INF; 33].into_iter().chain([0.5; 33]).collect());
    cases.push(Case::new(
        "rows masked throughout are zero",
        masked,
        vec![Input::gaussian(F32, &[4, 2, 33]), Input::of(F32, &[2, 33], rows)],
    ));
    for dtype in [F16, BF16] {
        let inputs = vec![Input::gaussian(dtype, &[2, 3, 577]), Input::of(dtype, &[3, 577], causal(3, 577))];
        cases.push(Case::new(format!("{dtype}, mask"), masked, inputs));
    }
    let inputs = vec![Input::gaussian(F16, &[2, 3, 70]), Input::of(F32, &[3, 70], causal(3, 70))];
    cases.push(Case::new("f16, f32 mask", masked, inputs));
    cases.push(Case::new("one row not a number", plain, vec![Input::of(F32, &[1, 5], nan())]));
    let inputs =
        vec![Input::gaussian(F32, &[2, 70_001]), Input::of(F32, &[70_001], Data::Values(vec![0.0, -INF]))];
    cases.push(Case::new("two long rows with a mask", masked, inputs));
    cases
}

fn nan() -> Data {
    Data::Values(vec![f64::NAN])
}

/// Query `q` of `queries`, the last of which sees every key, sees no key after its own.
fn causal(queries: usize, keys: usize) -> Data {
    let seen = |q: usize, key: usize| key + queries <= q + keys;
    let value = |i: usize| if seen(i / keys, i % keys) { 0.0 } else { -INF };
    Data::Values((0..queries * keys).map(value).collect())
}
