//! Products of dense weights, through the safe entry points: against an f64 reference on every instruction set of this machine, at odd
//! sizes; and what is refused.

use super::*;
use crate::isa::{Portable, Simd};
use crate::view::{GemmError, Matrix, MatrixMut};
use silicide_quant::{bf16, f16};

/// Calls a generic function with the token of every instruction set that this CPU has.
macro_rules! for_every_isa {
    ($function:ident($($argument:expr),*)) => {{
        #[cfg(target_arch = "x86_64")]
        {
            crate::isa::Avx512::detect().map(|isa| $function(isa $(, $argument)*));
            crate::isa::Avx2::detect().map(|isa| $function(isa $(, $argument)*));
        }
        #[cfg(target_arch = "aarch64")]
        crate::isa::Neon::detect().map(|isa| $function(isa $(, $argument)*));
        Portable::detect().map(|isa| $function(isa $(, $argument)*));
    }};
}

/// Numbers that f16 and bf16 have exactly.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 127) as f32 / 64.0 - 1.0).collect()
}

const SENTINEL: f32 = -12345.5;

/// Rows of every type, of the same numbers.
struct Typed {
    f32: Vec<f32>,
    f16: Vec<f16>,
    bf16: Vec<bf16>,
    extents: [usize; 2],
    stride: usize,
}

impl Typed {
    fn new(extents: [usize; 2], stride: usize) -> Typed {
        let f32 = numbers(extents[0] * stride, 1);
        let f16 = f32.iter().map(|x| f16::from_f32(*x)).collect();
        let bf16 = f32.iter().map(|x| bf16::from_f32(*x)).collect();
        Typed { f32, f16, bf16, extents, stride }
    }

    fn views(&self) -> [DenseRows<'_>; 3] {
        [
            DenseRows::F32(Matrix::new("rhs", &self.f32, self.extents, self.stride).unwrap()),
            DenseRows::F16(Matrix::new("rhs", &self.f16, self.extents, self.stride).unwrap()),
            DenseRows::BF16(Matrix::new("rhs", &self.bf16, self.extents, self.stride).unwrap()),
        ]
    }
}

#[test]
fn gemv_and_gemm_agree_with_an_f64_reference() {
    fn check<I: F32Kernels>(isa: I, [m, n, k]: [usize; 3]) {
        let (a_stride, b_stride, y_stride) = (k + 3, k + 1, n + 2);
        let (a, b) = (numbers(m * a_stride, 5), Typed::new([n, k], b_stride));
        let mut panel = PackedPanel::new();
        for (rhs, packed) in b.views().into_iter().flat_map(|rhs| [(rhs, false), (rhs, true)]) {
            let mut y = vec![SENTINEL; m * y_stride];
            let lhs = Matrix::new("lhs", &a, [m, k], a_stride).unwrap();
            let out = MatrixMut::new("out", &mut y, [m, n], y_stride).unwrap();
            if packed {
                gemm(isa, lhs, rhs, out, &mut panel).unwrap();
            } else {
                gemv(isa, lhs, rhs, out).unwrap();
            }
            for (row, y) in y.chunks_exact(y_stride).enumerate() {
                assert!(y[n..].iter().all(|y| *y == SENTINEL), "wrote outside");
                for (output, got) in y[..n].iter().enumerate() {
                    let pairs = a[row * a_stride..][..k].iter().zip(&b.f32[output * b_stride..][..k]);
                    let expected: f64 = pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    let error = (f64::from(*got) - expected).abs();
                    assert!(error <= 1e-6 * k as f64, "{} {m} x {n} x {k}: {got}, not {expected}", I::NAME);
                }
            }
        }
    }
    for extents in [[1, 1, 1], [1, 17, 70], [3, 50, 129], [7, 49, 1100], [13, 5, 64]] {
        for_every_isa!(check(extents));
    }
}

#[test]
fn weighted_sums_agree_with_an_f64_reference() {
    fn check<I: F32Kernels>(isa: I, [sums, count, dim]: [usize; 3]) {
        let (weights, rows, padded) =
            (numbers(sums * count, 3), Typed::new([count, dim], dim), dim.next_multiple_of(SUM_PADDING));
        for view in rows.views() {
            let mut y = vec![0.5f32; sums * padded];
            let out = MatrixMut::new("sums", &mut y, [sums, padded], padded).unwrap();
            weighted_sum(isa, Matrix::new("weights", &weights, [sums, count], count).unwrap(), view, out)
                .unwrap();
            for (sum, y) in y.chunks_exact(padded).enumerate() {
                for (at, got) in y[..dim].iter().enumerate() {
                    let terms = weights[sum * count..][..count].iter().enumerate();
                    let terms =
                        terms.map(|(row, weight)| f64::from(*weight) * f64::from(rows.f32[row * dim + at]));
                    let expected = 0.5 + terms.sum::<f64>();
                    let error = (f64::from(*got) - expected).abs();
                    assert!(error <= 1e-6 * count as f64, "{} {sums} of {count} x {dim}", I::NAME);
                }
            }
        }
    }
    for extents in [[1, 1, 1], [1, 9, 64], [3, 20, 37], [9, 5, 128]] {
        for_every_isa!(check(extents));
    }
}

#[test]
fn products_whose_extents_differ_are_refused() {
    let isa = Portable::detect().unwrap();
    let (a, b) = (numbers(64, 1), Typed::new([4, 8], 8));
    let mut y = vec![0.0; 64];
    let mut refuse = |[m, k]: [usize; 2], [rows, columns]: [usize; 2]| {
        let lhs = Matrix::new("lhs", &a, [m, k], k).unwrap();
        let out = MatrixMut::new("out", &mut y, [rows, columns], columns).unwrap();
        gemv(isa, lhs, b.views()[0], out)
    };
    let extent = |argument, what, expected, got| Err(GemmError::Extent { argument, what, expected, got });
    assert_eq!(refuse([2, 8], [2, 4]), Ok(()));
    assert_eq!(refuse([2, 7], [2, 4]), extent("lhs", "columns", 8, 7));
    assert_eq!(refuse([2, 8], [3, 4]), extent("out", "rows", 2, 3));
    assert_eq!(refuse([2, 8], [2, 5]), extent("out", "columns", 4, 5));
    let weights = Matrix::new("weights", &a, [2, 4], 4).unwrap();
    let mut y = vec![0.0; 64];
    let sums = MatrixMut::new("sums", &mut y, [2, 8], 8).unwrap();
    assert_eq!(weighted_sum(isa, weights, b.views()[0], sums), extent("sums", "columns", 16, 8));
}
