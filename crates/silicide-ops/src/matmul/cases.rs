//! Cases: odd extents round every tile boundary, batches, grouped heads and each weight format.

use super::Matmul;
use crate::case::{Case, Data, Input};
use silicide_quant::{DType, Format};

/// The cases of this op.
pub fn cases() -> Vec<Case> {
    use DType::{BF16, F16, F32};
    let mut cases = Vec::new();
    let mut add = |dtype: DType, a: &[usize], b: &[usize]| {
        let label = format!("a {a:?} x b {dtype}{b:?}");
        // With weights of f32 it makes no difference.
        let op = Matmul { exact: dtype != F32 };
        cases.push(Case::new(label, op, vec![Input::gaussian(F32, a), Input::gaussian(dtype, b)]));
    };
    // One row and few: whole vectors, tails, depths shorter than a vector, single columns.
    for (m, n, k) in [
        (1, 1, 1),
        (1, 3, 3),
        (1, 17, 31),
        (1, 257, 576),
        (2, 64, 100),
        (3, 17, 64),
        (4, 3, 31),
        (5, 257, 100),
        (8, 64, 576),
        (8, 1, 64),
    ] {
        add(F32, &[m, k], &[n, k]);
    }
    // Many rows: strips and panels that do not come out even.
    for (m, n, k) in [(9, 3, 1), (33, 1, 31), (33, 17, 100), (33, 257, 64), (130, 64, 3), (130, 257, 576)] {
        add(F32, &[m, k], &[n, k]);
    }
    // A depth of more than one panel, and one that is large in every direction.
    add(F32, &[33, 2100], &[50, 2100]);
    add(F32, &[256, 1024], &[256, 1024]);
    // Half-width weights, with depths that leave half a word.
    for dtype in [F16, BF16] {
        for (m, n, k) in [
            (1, 257, 576),
            (1, 17, 31),
            (3, 64, 100),
            (6, 7, 33),
            (8, 3, 64),
            (33, 64, 31),
            (130, 257, 100),
            (33, 50, 2100),
        ] {
            add(dtype, &[m, k], &[n, k]);
        }
    }
    // Batches: shared weights, one each, and grouped heads.
    add(F32, &[5, 7, 64], &[17, 64]);
    add(F32, &[64], &[17, 64]);
    for dtype in [F32, F16, BF16] {
        add(dtype, &[3, 2, 64], &[3, 17, 64]);
        add(dtype, &[2, 6, 1, 31], &[2, 2, 64, 31]);
        add(dtype, &[2, 6, 5, 100], &[2, 3, 33, 100]);
    }
    add(F32, &[6, 33, 64], &[1, 17, 64]);
    add(F32, &[2, 4, 130, 64], &[2, 4, 64, 64]);
    for dtype in [F16, BF16] {
        for (a, b) in
            [(&[9, 31][..], &[5, 31][..]), (&[130, 100], &[140, 100]), (&[2, 6, 5, 96], &[2, 3, 33, 96])]
        {
            let label = format!("a {a:?} x b {dtype}{b:?}, any");
            let inputs = vec![Input::gaussian(F32, a), Input::gaussian(dtype, b)];
            cases.push(Case::new(label, Matmul::default(), inputs));
        }
    }
    blocks(&mut cases);
    special(&mut cases);
    cases
}

/// Activations that are infinite in the first row, NaN in the second, and in all rows subnormal here and there: formats whose codes are
/// summed before they are scaled have them where the product of the weights has them.
fn special(cases: &mut Vec<Case>) {
    use Format::{Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
    let blocks = [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2K, Q3K, Q4K, Q5K, Q6K, Iq4Nl, Iq4Xs, Mxfp4];
    let formats = [DType::F32, DType::F16, DType::BF16].into_iter().chain(blocks.map(DType::from));
    for dtype in formats {
        let k = 3 * dtype.block_len().max(64);
        for m in [2, 5] {
            let value = |i: usize| match (i / k, i % k) {
                (0, 37) => f64::INFINITY,
                (1, 40) => f64::NAN,
                (_, 11 | 50) => 1e-41,
                (row, at) => ((row * 5 + at * 37) % 23) as f64 / 7.0 - 1.5,
            };
            let a = Input::of(DType::F32, &[m, k], Data::Values((0..m * k).map(value).collect()));
            let data = if dtype.is_block() { Data::Blocks } else { Data::Gaussian { scale: 1.0 } };
            let label = format!("a [{m}, {k}] with infinity, NaN and subnormals x b {dtype}[9, {k}]");
            cases.push(Case::new(label, Matmul { exact: true }, vec![a, Input::of(dtype, &[9, k], data)]));
        }
    }
}

/// Block formats: any bits in every format, for one row, few and many.
fn blocks(cases: &mut Vec<Case>) {
    let mut add = |op: Matmul, format: Format, a: &[usize], b: &[usize]| {
        let label = format!("a {a:?} x b {format}{b:?}, {}", if op.exact { "exact" } else { "any" });
        let weights = Input::of(format.into(), b, Data::Blocks);
        cases.push(Case::new(label, op, vec![Input::gaussian(DType::F32, a), weights]));
    };
    let (any, exact) = (Matmul::default(), Matmul { exact: true });
    for format in Format::ALL {
        // Scales of any bits: an output of few blocks is often one of them, whose products may all but cancel.
        let k = if format.block_len() >= 128 { 1280 } else { 320 / format.block_len() * format.block_len() };
        add(any, format, &[1, k], &[37, k]);
        add(exact, format, &[3, k], &[5, k]);
        add(any, format, &[19, k], &[50, k]);
    }
    // Formats with kernels in integers: round every number of rows and columns that is taken at a time, and deep.
    for format in [Format::Q4_0, Format::Q4_1, Format::Q8_0, Format::Iq4Nl, Format::Mxfp4] {
        for (m, n, k) in
            [(1, 15, 64), (2, 16, 32), (7, 70, 96), (16, 33, 576), (17, 17, 8224), (130, 65, 160)]
        {
            add(any, format, &[m, k], &[n, k]);
        }
    }
    for format in [Format::Q2K, Format::Q3K, Format::Q4K, Format::Q5K, Format::Q6K, Format::Iq4Xs] {
        for (m, n, k) in [(1, 33, 2560), (9, 17, 256), (20, 40, 512)] {
            add(any, format, &[m, k], &[n, k]);
        }
    }
    // Formats that are decoded to 8-bit codes: with scales of halves and without, in short blocks and long, several at a time.
    for format in [Format::Iq1M, Format::Iq2Xxs, Format::Tq1_0, Format::Nvfp4, Format::Q1_0] {
        for (m, n, k) in [(1, 33, 1280), (20, 17, 2304)] {
            add(any, format, &[m, k], &[n, k]);
        }
    }
    // One block deep, and every number of rows and columns beside those that GPU kernels take at a time.
    for format in [Format::Q4_1, Format::Q5_0, Format::Q8_0, Format::Q4K, Format::Q6K, Format::Mxfp4] {
        let k = format.block_len();
        for (m, n) in [(1, 1), (2, 6), (5, 3), (6, 9), (8, 66), (9, 5), (33, 67)] {
            add(exact, format, &[m, k], &[n, k]);
        }
    }
    // More than one panel deep; batches; grouped heads.
    for op in [any, exact] {
        add(op, Format::Q4_0, &[33, 2080], &[17, 2080]);
        add(op, Format::Q8_0, &[2, 6, 2, 64], &[2, 3, 17, 64]);
        add(op, Format::Q4K, &[4, 9, 256], &[2, 33, 256]);
    }
}
