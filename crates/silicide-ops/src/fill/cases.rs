//! Calls of `fill`: every type, whole words and not, values that need rounding or saturate.

use super::Fill;
use crate::case::Case;
use silicide_quant::{DType, Shape};

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |dtype: DType, extents: &[usize], value: f64| {
        let Ok(shape) = Shape::new(extents) else { return };
        let label = format!("{dtype}{extents:?} = {value}");
        cases.push(Case::new(label, Fill { dtype, shape, value }, Vec::new()));
    };
    for dtype in DType::ALL {
        add(dtype, &[64], 0.0);
        add(dtype, &[3, 1367], -1.1);
    }
    for (dtype, value) in [
        (DType::F32, f64::NAN),
        (DType::F16, 1e9),
        (DType::BF16, f64::NEG_INFINITY),
        (DType::F64, 0.1),
        (DType::I8, 1000.0),
        (DType::U8, 255.0),
        (DType::I64, -2.0),
        (DType::U64, 4_294_967_297.0),
    ] {
        add(dtype, &[1], value);
        add(dtype, &[17, 1001], value);
    }
    cases
}
