//! Calls of `strided_copy`: windows, columns, broadcasts, transposes, scattering into a larger tensor; every size of
//! element.

use super::{Layout, StridedCopy};
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Shape};

/// The calls to try.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let counting = |dtype, elements| Input::of(dtype, &[elements], Data::Indices { below: 120 });
    let mut take = |dtype: DType, extents: &[usize], elements: usize, from: Layout| {
        let Ok(shape) = Shape::new(extents) else { return };
        let label = format!("{dtype} {extents:?} from {} by {:?}", from.offset, from.strides);
        cases.push(Case::new(label, StridedCopy { shape, from, to: None }, vec![counting(dtype, elements)]));
    };
    for dtype in [DType::F32, DType::BF16, DType::U8, DType::I64] {
        take(dtype, &[7, 13], 400, Layout::new(11, &[29, 1]));
        take(dtype, &[37, 41], 37 * 41, Layout::new(0, &[1, 37]));
    }
    take(DType::F32, &[1], 5, Layout::new(4, &[1]));
    take(DType::F32, &[3, 333], 1000, Layout::new(1, &[333, 1]));
    take(DType::F32, &[5, 17], 17, Layout::new(0, &[0, 1]));
    take(DType::F32, &[17, 5], 17, Layout::new(0, &[1, 0]));
    take(DType::F32, &[100], 1000, Layout::new(3, &[7]));
    take(DType::F32, &[130, 261], 130 * 261, Layout::new(0, &[1, 130]));
    take(DType::F16, &[2, 3, 4, 5, 6, 7], 5040, Layout::new(0, &[3, 6, 18, 72, 360, 1]));
    let mut put = |dtype: DType, extents: &[usize], (from, to): (Layout, Layout), (x, y): (usize, usize)| {
        let Ok(shape) = Shape::new(extents) else { return };
        let label =
            format!("{dtype} {extents:?} by {:?} into {} by {:?}", from.strides, to.offset, to.strides);
        let mut case = Case::new(label, StridedCopy { shape, from, to: Some(to) }, vec![counting(dtype, x)]);
        case.outputs.push(counting(dtype, y));
        cases.push(case);
    };
    for dtype in [DType::F32, DType::F16, DType::I8] {
        put(dtype, &[5, 9], (Layout::new(0, &[9, 1]), Layout::new(3, &[20, 1])), (45, 92));
        put(dtype, &[6, 33], (Layout::new(2, &[33, 1]), Layout::new(0, &[1, 6])), (200, 198));
    }
    put(DType::F32, &[4, 8], (Layout::new(0, &[8, 1]), Layout::new(64, &[8, 1])), (32, 96));
    cases
}
