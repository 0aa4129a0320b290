//! Calls of `permute`: transposes of odd sizes, heads and positions exchanged, every size of element.

use super::Permute;
use crate::case::{Case, Data, Input};
use silicide_quant::DType;
use smallvec::SmallVec;

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |dtype: DType, extents: &[usize], order: &[usize]| {
        let label = format!("{dtype}{extents:?} by {order:?}");
        let x = Input::of(dtype, extents, Data::Indices { below: 120 });
        cases.push(Case::new(label, Permute { order: SmallVec::from_slice(order) }, vec![x]));
    };
    for dtype in [DType::F32, DType::F16, DType::U8, DType::U64] {
        add(dtype, &[67, 131], &[1, 0]);
        add(dtype, &[5, 7, 16], &[1, 0, 2]);
    }
    add(DType::F32, &[3, 1, 5], &[1, 0, 2]);
    add(DType::F32, &[4, 6, 10], &[2, 1, 0]);
    add(DType::F32, &[4, 6, 10], &[2, 0, 1]);
    add(DType::BF16, &[2, 3, 4, 5], &[0, 2, 1, 3]);
    add(DType::I32, &[2, 3, 2, 3, 2, 3], &[5, 4, 3, 2, 1, 0]);
    add(DType::F32, &[260, 300], &[1, 0]);
    cases
}
