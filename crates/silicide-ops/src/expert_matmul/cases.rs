//! Calls of `expert_matmul`: shared and own activations, one row and many, every weight format, experts that get all rows and
//! experts that get none, ids that no expert has.

use super::ExpertMatmul;
use crate::interleave::cases::interleaved_input;
use crate::{Case, Data, Input};
use silicide_quant::DType::{self, BF16, F16, F32, I32, U32};
use silicide_quant::Format;

/// The extents of a case.
#[derive(Clone, Copy)]
struct Extents {
    rows: usize,
    used: usize,
    experts: usize,
    n: usize,
    k: usize,
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |op: ExpertMatmul, dtype: DType, extents: [usize; 5], own: bool, ids: Option<Input>| {
        let [rows, used, experts, n, k] = extents;
        let extents = Extents { rows, used, experts, n, k };
        cases.push(case(op, dtype, extents, own, ids));
    };
    let (any, exact) = (ExpertMatmul::default(), ExpertMatmul { exact: true, interleaved: None });
    for dtype in [F32, F16, BF16] {
        for (extents, own) in [
            ([1, 1, 1, 1, 1], false),
            ([1, 4, 8, 70, 96], false),
            ([1, 2, 8, 33, 31], true),
            ([5, 2, 4, 50, 100], false),
            ([3, 3, 7, 17, 64], true),
            // Strips of more rows than are packed for, and one that is cut.
            ([40, 2, 3, 67, 80], false),
            ([150, 1, 2, 49, 33], true),
        ] {
            add(any, dtype, extents, own, None);
        }
    }
    // More than one panel deep.
    add(any, F32, [20, 2, 2, 50, 1100], false, None);
    for format in Format::ALL {
        let k = if format.block_len() >= 128 { 1280 } else { 320 / format.block_len() * format.block_len() };
        add(any, format.into(), [1, 3, 5, 37, k], false, None);
        add(any, format.into(), [30, 2, 3, 50, k], false, None);
    }
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K] {
        let k = 2 * format.block_len().max(160);
        add(exact, format.into(), [4, 2, 3, 5, k], true, None);
        for (extents, own) in [
            ([1, 8, 16, 130, k], true),
            ([7, 4, 32, 16, k], false),
            ([70, 2, 4, 140, k], true),
            ([140, 1, 1, 33, k], false),
        ] {
            add(any, format.into(), extents, own, None);
        }
    }
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Mxfp4] {
        let op = ExpertMatmul { exact: false, interleaved: Some(format) };
        let k = 2 * format.block_len().max(160);
        for (extents, own) in [
            ([1, 3, 5, 48, k], false),
            ([1, 8, 16, 144, k], true),
            ([7, 4, 32, 16, k], false),
            ([70, 2, 4, 160, k], true),
        ] {
            add(op, format.into(), extents, own, None);
        }
        let ids = Input::of(I32, &[4, 2], Data::Values(vec![0.0, -1.0, 3.0, 2.0, 4.0, 1.0, 1.0, 1.0]));
        add(op, format.into(), [4, 2, 4, 32, k], false, Some(ids));
    }
    let outside = |rows: usize| {
        let ids = vec![0.0, -1.0, 3.0, 2.0, 4.0, -2_147_483_648.0, 2_147_483_647.0, 1.0];
        Some(Input::of(I32, &[rows, 2], Data::Values(ids)))
    };
    for dtype in [F32, BF16, Format::Q4_0.into(), Format::Q6K.into()] {
        for rows in [1, 4, 40] {
            add(any, dtype, [rows, 2, 4, 40, 256], rows > 1, outside(rows));
        }
    }
    let large = Input::of(U32, &[3, 1], Data::Values(vec![4_294_967_295.0, 1.0, 2_147_483_648.0]));
    add(any, F32, [3, 1, 2, 9, 16], false, Some(large));
    // All rows to one expert, and nothing but ids of nobody.
    for id in [1.0, 9.0] {
        let ids = Input::of(U32, &[300, 1], Data::Values(vec![id]));
        add(any, Format::Q8_0.into(), [300, 1, 3, 20, 64], false, Some(ids));
    }
    cases
}

fn case(op: ExpertMatmul, dtype: DType, extents: Extents, own: bool, ids: Option<Input>) -> Case {
    let Extents { rows, used, experts, n, k } = extents;
    let which = match &ids {
        Some(Input { data: Data::Values(ids), .. }) => format!("ids {ids:?}"),
        _ => "any ids".to_owned(),
    };
    let how = if op.interleaved.is_some() { ", interleaved" } else { "" };
    let label = format!(
        "{rows} to {used} of {experts} {dtype} [{n}, {k}]{how}, own {own}, exact {}, {which}",
        op.exact
    );
    let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
    let x = if own { vec![rows, used, k] } else { vec![rows, k] };
    let ids = ids.unwrap_or_else(|| Input::of(U32, &[rows, used], Data::Indices { below: experts }));
    let weights = match op.interleaved {
        Some(format) => interleaved_input(format, &[experts, n, k]),
        None => Input::of(dtype, &[experts, n, k], data),
    };
    Case::new(label, op, vec![Input::gaussian(F32, &x), weights, ids])
}
