//! Calls of `cast`: every type to f32 and back, the half types among each other, integers among each other, f64;
//! special values, ties, and what saturates.

use super::Cast;
use crate::case::{Case, Data, Input};
use silicide_quant::DType;

/// Where conversions go wrong: signs, ties of bf16 and f16, subnormals, the ends of integer types.
const NUMBERS: [f64; 26] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    1.5,
    -2.75,
    127.0,
    128.0,
    -128.0,
    -129.0,
    255.9,
    256.0,
    40_000.0,
    65_519.9,
    65_520.0,
    -70_000.0,
    1.003_906_25,
    1.011_718_75,
    1.000_488_281_25,
    6e-8,
    -3e-6,
    2_147_483_648.0,
    -2_147_483_649.0,
    1e30,
    -1e30,
    1e-40,
];

/// The calls to try.
pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let mut cases = Vec::new();
    let mut add = |from: DType, to: DType, extents: &[usize], data: Data| {
        let label = format!("{from} to {to} {extents:?} {}", cases.len());
        cases.push(Case::new(label, Cast { to }, vec![Input::of(from, extents, data)]));
    };
    let with_specials = || {
        let mut values = NUMBERS.to_vec();
        values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        Data::Values(values)
    };
    for (from, to) in [
        (F32, F16),
        (F32, BF16),
        (F16, F32),
        (BF16, F32),
        (BF16, F16),
        (F16, BF16),
        (F32, F32),
        (F16, F16),
        (F32, I8),
        (F32, U8),
        (F32, I16),
        (F32, U16),
        (F32, I32),
        (F32, U32),
        (F32, I64),
        (F32, U64),
        (BF16, I32),
        (F64, F32),
        (F32, F64),
        (F64, F16),
        (F64, BF16),
        (F64, I64),
        (F64, U8),
    ] {
        add(from, to, &[NUMBERS.len() + 3], with_specials());
        if from.is_float() && to.is_float() {
            add(from, to, &[3, 1709], Data::Gaussian { scale: 0.01 });
        }
    }
    for (from, to) in [
        (I8, F32),
        (U8, F32),
        (I16, F32),
        (U16, F32),
        (I32, F32),
        (U32, F32),
        (I64, F32),
        (U64, F32),
        (I32, F16),
        (U8, BF16),
        (I32, F64),
        (I64, F64),
        (I32, I8),
        (I32, U8),
        (I64, I32),
        (I32, I64),
        (U32, I64),
        (U8, I16),
        (I16, U16),
        (I64, U64),
        (U64, I64),
        (U64, U32),
        (I8, I8),
        (I64, I64),
    ] {
        add(from, to, &[NUMBERS.len()], Data::Values(NUMBERS.to_vec()));
        add(from, to, &[1], Data::Values(vec![100.0]));
    }
    add(F32, BF16, &[19, 4099], Data::Gaussian { scale: 1.0 });
    cases
}
