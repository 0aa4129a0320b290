//! Microkernels of attention, against the definition bit for bit on every instruction set of this machine, at odd sizes; and what is
//! refused.

use crate::dense::{DENSE, Typed, bits, defined, numbers};
use silicide_gemm::f32::*;
use silicide_gemm::isa::{Portable, Simd};
use silicide_gemm::{GemmError, Matrix, MatrixMut};
use silicide_quant::DType;

const SENTINEL: f32 = -12345.5;

#[test]
fn scores_have_the_bits_of_the_definition_for_any_number_of_rows_and_keys() {
    fn check<I: F32Kernels>(isa: I, dtype: DType, [m, sets, dim]: [usize; 3]) {
        let n = sets * KEY_LANES;
        let (q, keys) = (numbers(m * (dim + 3), 5), Typed::new(dtype, [n, dim], dim));
        let lanes = keys.interleaved();
        let stored = lanes.view(0, [sets, dim * KEY_LANES], dim * KEY_LANES);
        let mut y = vec![SENTINEL; m * (n + 2)];
        let lhs = Matrix::new("lhs", &q, [m, dim], dim + 3).unwrap();
        let out = MatrixMut::new("out", &mut y, [m, n], n + 2).unwrap();
        key_scores(isa, lhs, stored, out, Some(4096)).unwrap();
        for (row, y) in y.chunks_exact(n + 2).enumerate() {
            assert!(y[n..].iter().all(|y| *y == SENTINEL), "wrote outside");
            let q = &q[row * (dim + 3)..][..dim];
            let expected: Vec<f32> =
                keys.values.chunks_exact(dim).map(|key| defined::<I>(q, key, 0.0)).collect();
            assert_eq!(bits(&y[..n]), bits(&expected), "{} {dtype} {m} x {sets} x {dim}", I::NAME);
        }
    }
    for dtype in DENSE {
        for m in 1..=13 {
            for_every_isa!(check(dtype, [m, 1 + m % 9, 8 * m]));
        }
        for_every_isa!(check(dtype, [3, 8, 61]));
    }
}

#[test]
fn transposed_keys_are_sets() {
    fn check<I: F32Kernels>(isa: I, dtype: DType, [count, dim]: [usize; 2]) {
        let rows = Typed::new(dtype, [count, dim], dim + 1);
        let mut set = vec![SENTINEL; dim * KEY_LANES + 1];
        transpose_keys(isa, rows.rows(), &mut set).unwrap();
        for (at, lanes) in set.chunks_exact(KEY_LANES).enumerate() {
            let key = |lane: usize| rows.values.get(lane * (dim + 1) + at).copied().filter(|_| lane < count);
            let expected: Vec<f32> = (0..KEY_LANES).map(|lane| key(lane).unwrap_or(0.0)).collect();
            assert_eq!(bits(lanes), bits(&expected), "{} {dtype} {count} x {dim}", I::NAME);
        }
        assert_eq!(set.last(), Some(&SENTINEL));
    }
    for dtype in DENSE {
        for extents in [[16, 64], [1, 1], [7, 13], [9, 40]] {
            for_every_isa!(check(dtype, extents));
        }
    }
}

#[test]
fn weighted_values_have_the_bits_of_the_definition_and_skip_what_is_out_of_range() {
    fn check<I: F32Kernels>(isa: I, dtype: DType, [rows, keys, dim]: [usize; 3]) {
        let (first, columns, padded) = (3, keys + 5, dim.next_multiple_of(SUM_PADDING));
        let (weights, values) = (numbers(rows * columns, 3), Typed::new(dtype, [keys, dim], dim));
        // Sums add different keys; some add none.
        let ranges: Vec<[usize; 2]> = (0..rows)
            .map(|row| [first + row * 3 % keys, first + keys - row * 5 % keys])
            .map(|[start, end]| if start < end { [start, end] } else { [0, 0] })
            .collect();
        let factors: Vec<[f32; 2]> = numbers(2 * rows, 9).as_chunks().0.to_vec();
        let old = numbers(rows * padded, 11);
        for factors in [Some(factors.as_slice()), None] {
            let mut sums = old.clone();
            let call = WeightedValues {
                weights: Matrix::new("weights", &weights, [rows, columns], columns).unwrap(),
                ranges: &ranges,
                values: values.rows(),
                first,
                factors,
                ahead: Some(4096),
            };
            call.fold(isa, MatrixMut::new("sums", &mut sums, [rows, padded], padded).unwrap()).unwrap();
            for (row, &[start, end]) in ranges.iter().enumerate() {
                let (weights, old) = (&weights[row * columns..][..columns], &old[row * padded..][..dim]);
                for (at, got) in sums[row * padded..][..dim].iter().enumerate() {
                    let value = |key: usize| values.values[(key - first) * dim + at];
                    let terms: Vec<f32> = (start..end).map(value).collect();
                    let part = defined::<I>(&weights[start..end], &terms, 0.0);
                    let expected = match factors.map(|factors| factors[row]) {
                        _ if start >= end => old[at],
                        Some([here, there]) => {
                            let sum = defined::<I>(&[old[at]], &[here], 0.0);
                            defined::<I>(&[part], &[there], sum)
                        }
                        None => part,
                    };
                    assert_eq!(got.to_bits(), expected.to_bits(), "{} {dtype} {rows} {keys} {dim}", I::NAME);
                }
            }
        }
    }
    for dtype in DENSE {
        for extents in [[1, 1, 8], [1, 20, 64], [3, 70, 64], [5, 17, 40], [6, 9, 128], [13, 33, 200]] {
            for_every_isa!(check(dtype, extents));
        }
    }
}

#[test]
fn values_out_of_range_do_not_reach_a_sum_even_if_they_are_nan() {
    fn check<I: F32Kernels>(isa: I) {
        let values = [[1.0; 16], [f32::NAN; 16], [2.0; 16], [f32::INFINITY; 16]].concat();
        let mut sums = [0.5; 32];
        let call = WeightedValues {
            weights: Matrix::new("weights", &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [2, 4], 4).unwrap(),
            ranges: &[[0, 1], [2, 3]],
            values: DenseRows::F32(Matrix::new("values", &values, [4, 16], 16).unwrap()),
            first: 0,
            factors: Some(&[[1.0, 1.0]; 2]),
            ahead: None,
        };
        call.fold(isa, MatrixMut::new("sums", &mut sums, [2, 16], 16).unwrap()).unwrap();
        assert_eq!(sums, *[[1.5; 16], [2.5; 16]].as_flattened());
    }
    for_every_isa!(check());
}

#[test]
fn parts_fold_as_blocks_do() {
    fn check<I: F32Kernels>(isa: I, count: usize, len: usize) {
        let (old, parts) = (numbers(len, 1), numbers(count * (len + 2), 2));
        let factors: Vec<[f32; 2]> = numbers(2 * count, 9).as_chunks().0.to_vec();
        let mut sum = old.clone();
        let matrix = Matrix::new("parts", &parts, [count, len], len + 2).unwrap();
        fold_parts(isa, &mut sum, matrix, &factors).unwrap();
        let expected = old.iter().enumerate().map(|(at, old)| {
            factors.iter().enumerate().fold(*old, |sum, (part, [here, there])| {
                let sum = defined::<I>(&[sum], &[*here], 0.0);
                defined::<I>(&[parts[part * (len + 2) + at]], &[*there], sum)
            })
        });
        assert_eq!(bits(&sum), bits(&expected.collect::<Vec<_>>()), "{} {len}", I::NAME);
    }
    for (count, len) in [(1, 1), (2, 8), (8, 40), (3, 64), (8, 513)] {
        for_every_isa!(check(count, len));
    }
}

#[test]
fn calls_whose_extents_differ_are_refused() {
    let isa = Portable::detect().unwrap();
    let (a, mut y) = (numbers(1024, 1), vec![0.0; 1024]);
    let extent = |argument, what, expected, got| Err(GemmError::Extent { argument, what, expected, got });
    let rows = |rows, columns| DenseRows::F32(Matrix::new("rows", &a, [rows, columns], columns).unwrap());
    let lhs = Matrix::new("lhs", &a, [2, 8], 8).unwrap();
    let mut refuse = |sets: DenseRows<'_>, [m, n]: [usize; 2]| {
        key_scores(isa, lhs, sets, MatrixMut::new("out", &mut y, [m, n], n).unwrap(), None)
    };
    assert_eq!(refuse(rows(2, 128), [2, 32]), Ok(()));
    assert_eq!(refuse(rows(2, 120), [2, 32]), extent("sets", "columns", 128, 120));
    assert_eq!(refuse(rows(2, 128), [3, 32]), extent("out", "rows", 2, 3));
    assert_eq!(refuse(rows(2, 128), [2, 16]), extent("out", "columns", 32, 16));
    let bounds = GemmError::Bounds { argument: "rows", what: "rows", least: 1, most: 16, got: 17 };
    assert_eq!(transpose_keys(isa, rows(17, 8), &mut y), Err(bounds));
    let short = GemmError::Length { argument: "set", needed: 128, got: 127 };
    assert_eq!(transpose_keys(isa, rows(16, 8), &mut y[..127]), Err(short));
    let parts = Matrix::new("parts", &a, [2, 4], 4).unwrap();
    assert_eq!(fold_parts(isa, &mut y[..3], parts, &[[1.0; 2]; 2]), extent("parts", "columns", 3, 4));
    assert_eq!(fold_parts(isa, &mut y[..4], parts, &[[1.0; 2]; 3]), extent("factors", "length", 2, 3));
    let call = WeightedValues {
        weights: Matrix::new("weights", &a, [1, 8], 8).unwrap(),
        ranges: &[[2, 6]],
        values: rows(4, 8),
        first: 2,
        factors: None,
        ahead: None,
    };
    let mut fold = |call: WeightedValues<'_>, [rows, columns]: [usize; 2]| {
        call.fold(isa, MatrixMut::new("sums", &mut y, [rows, columns], columns).unwrap())
    };
    assert_eq!(fold(call, [1, 16]), Ok(()));
    assert_eq!(fold(call, [2, 16]), extent("sums", "rows", 1, 2));
    assert_eq!(fold(call, [1, 8]), extent("sums", "columns", 16, 8));
    assert_eq!(fold(WeightedValues { ranges: &[], ..call }, [1, 16]), extent("ranges", "length", 1, 0));
    let factors = WeightedValues { factors: Some(&[]), ..call };
    assert_eq!(fold(factors, [1, 16]), extent("factors", "length", 1, 0));
    let outside = |got| Err(GemmError::Bounds { argument: "ranges", what: "keys", least: 2, most: 6, got });
    assert_eq!(fold(WeightedValues { ranges: &[[1, 6]], ..call }, [1, 16]), outside(1));
    assert_eq!(fold(WeightedValues { ranges: &[[2, 7]], ..call }, [1, 16]), outside(7));
    assert_eq!(fold(WeightedValues { ranges: &[[7, 1]], ..call }, [1, 16]), Ok(()));
}
