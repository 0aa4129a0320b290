//! Calls of `unary`: every function in f32 over all magnitudes, the other types on a few, special values.

use super::{Activation, Unary};
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// Values that every function must handle.
const SPECIAL: [f64; 12] =
    [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0, -1.0, 1e-30, -1e-30, 80.0, -80.0, 0.625];

fn functions() -> Vec<Unary> {
    let mut all: Vec<Unary> = Activation::ALL.into_iter().map(Unary::Activate).collect();
    all.extend([Unary::Relu, Unary::Tanh, Unary::Exp, Unary::Log, Unary::Sqrt, Unary::Neg]);
    all.extend([Unary::Softcap { cap: 30.0 }, Unary::Scale { factor: -1.75 }]);
    all
}

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for function in functions() {
        let positive = matches!(function, Unary::Log | Unary::Sqrt);
        let (low, high) = if positive { (0.0, 50.0) } else { (-20.0, 20.0) };
        let mut add = |label: &str, dtype, extents: &[usize], data| {
            let label = format!("{function:?} {dtype} {extents:?}, {label}");
            cases.push(Case::new(label, function, vec![Input::of(dtype, extents, data)]));
        };
        add("wide", DType::F32, &[3, 1367], Data::Uniform { low, high });
        add("tiny", DType::F32, &[257], Data::Gaussian { scale: 1e-6 });
        add("one", DType::F32, &[], Data::Uniform { low: 0.5, high: 1.5 });
        add("special", DType::F32, &[SPECIAL.len()], Data::Values(SPECIAL.to_vec()));
        add("special", DType::BF16, &[SPECIAL.len()], Data::Values(SPECIAL.to_vec()));
        add("wide", DType::F16, &[1031], Data::Uniform { low: low / 4.0, high: high / 4.0 });
        add("wide", DType::BF16, &[1031], Data::Uniform { low, high });
    }
    let large = Input::of(DType::F32, &[17, 17_001], Data::Gaussian { scale: 3.0 });
    cases.push(Case::new("many tiles", Unary::Activate(Activation::Silu), vec![large]));
    cases
}
