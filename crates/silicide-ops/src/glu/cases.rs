//! Calls of `glu`: every activation and type, special values in the gate.

use super::{Activation, Glu};
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for activation in Activation::ALL {
        let op = Glu::new(activation);
        let mut add = |label: &str, dtype, extents: &[usize], gate: Data| {
            let label = format!("{activation:?} {dtype} {extents:?}, {label}");
            let inputs = vec![Input::of(dtype, extents, gate), Input::gaussian(dtype, extents)];
            cases.push(Case::new(label, op, inputs));
        };
        add("wide", DType::F32, &[3, 1367], Data::Gaussian { scale: 6.0 });
        add("tiny", DType::F32, &[65], Data::Gaussian { scale: 1e-5 });
        add("wide", DType::F16, &[1031], Data::Gaussian { scale: 3.0 });
        add("wide", DType::BF16, &[1031], Data::Gaussian { scale: 3.0 });
        let special = vec![0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 100.0, -100.0];
        add("special", DType::F32, &[7], Data::Values(special));
        add("one", DType::F32, &[1, 1], Data::Gaussian { scale: 1.0 });
    }
    let large = [17, 8001];
    let inputs = vec![Input::gaussian(DType::F32, &large), Input::gaussian(DType::F32, &large)];
    cases.push(Case::new("many tiles", Glu::new(Activation::Silu), inputs));
    for extents in [&[32][..], &[3, 96], &[1, 8, 768]] {
        let inputs = vec![Input::gaussian(DType::F32, extents), Input::gaussian(DType::F32, extents)];
        let op = Glu { quantized: true, ..Glu::new(Activation::Silu) };
        cases.push(Case::new(format!("quantized, {extents:?}"), op, inputs));
    }
    cases
}
