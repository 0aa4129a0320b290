//! Products of dense weights, through the safe entry points: against the definition bit for bit on every instruction set of this
//! machine, at odd sizes; and what is refused.

use silicide_gemm::f32::*;
use silicide_gemm::isa::{Portable, Simd};
use silicide_gemm::q8::INTERLEAVE;
use silicide_gemm::{GemmError, Matrix, MatrixMut};
use silicide_quant::{DType, bf16, f16};

/// Numbers of many bits.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as f32 / (1u64 << 30) as f32) - 1.0
    };
    (0..count).map(next).collect()
}

const SENTINEL: f32 = -12345.5;

/// One number after the other, as bits: `==` takes -0 for 0.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Rows of a type of elements, and what they stand for.
pub(crate) struct Typed {
    pub(crate) values: Vec<f32>,
    elements: Elements,
    extents: [usize; 2],
    stride: usize,
}

enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
}

impl Typed {
    pub(crate) fn new(dtype: DType, extents: [usize; 2], stride: usize) -> Typed {
        let numbers = numbers(extents[0] * stride, 1);
        let (values, elements) = match dtype {
            DType::F16 => {
                let halves: Vec<f16> = numbers.iter().map(|x| f16::from_f32(*x)).collect();
                (halves.iter().map(|x| x.to_f32()).collect(), Elements::F16(halves))
            }
            DType::BF16 => {
                let halves: Vec<bf16> = numbers.iter().map(|x| bf16::from_f32(*x)).collect();
                (halves.iter().map(|x| x.to_f32()).collect(), Elements::BF16(halves))
            }
            _ => (numbers.clone(), Elements::F32(numbers)),
        };
        Typed { values, elements, extents, stride }
    }

    pub(crate) fn rows(&self) -> DenseRows<'_> {
        self.view(0, self.extents, self.stride)
    }

    /// A view from element `start` on.
    pub(crate) fn view(&self, start: usize, extents: [usize; 2], stride: usize) -> DenseRows<'_> {
        match &self.elements {
            Elements::F32(data) => {
                DenseRows::F32(Matrix::new("rhs", &data[start..], extents, stride).unwrap())
            }
            Elements::F16(data) => {
                DenseRows::F16(Matrix::new("rhs", &data[start..], extents, stride).unwrap())
            }
            Elements::BF16(data) => {
                DenseRows::BF16(Matrix::new("rhs", &data[start..], extents, stride).unwrap())
            }
        }
    }

    /// The same rows, interleaved; those after the last whole set stay. They have no gaps.
    pub(crate) fn interleaved(&self) -> Typed {
        fn arrange<T: bytemuck::Pod>(dtype: DType, rows: &[T], depth: usize) -> Vec<T> {
            let mut sets = rows.to_vec();
            let whole = INTERLEAVE * depth;
            for (from, to) in rows.chunks_exact(whole).zip(sets.chunks_exact_mut(whole)) {
                let isa = Portable::detect().unwrap();
                interleave(isa, dtype, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to)).unwrap();
            }
            sets
        }
        let [n, k] = self.extents;
        assert!(self.stride == k && n >= INTERLEAVE);
        let elements = match &self.elements {
            Elements::F32(data) => Elements::F32(arrange(DType::F32, data, k)),
            Elements::F16(data) => Elements::F16(arrange(DType::F16, data, k)),
            Elements::BF16(data) => Elements::BF16(arrange(DType::BF16, data, k)),
        };
        Typed { values: self.values.clone(), elements, extents: self.extents, stride: k }
    }

    /// Interleaved rows as weights.
    fn sets(&self) -> DenseWeights<'_> {
        let [n, k] = self.extents;
        let whole = n - n % INTERLEAVE;
        let sets = self.view(0, [whole / INTERLEAVE, k * INTERLEAVE], k * INTERLEAVE);
        let tail = (whole < n).then(|| self.view(whole * k, [n - whole, k], k));
        DenseWeights::interleaved(sets, tail).unwrap()
    }
}

/// The definition: products summed over the depth in sequence, from `start`.
pub(crate) fn defined<I: Simd>(a: &[f32], b: &[f32], start: f32) -> f32 {
    // Vectors of eight lanes are fused on aarch64 only.
    let fused = I::FUSED || cfg!(target_arch = "aarch64");
    a.iter().zip(b).fold(start, |sum, (a, b)| if fused { a.mul_add(*b, sum) } else { a * b + sum })
}

/// Computes rows times all outputs, or some; checks that nothing else is written.
fn product<I: F32Kernels>(
    isa: I,
    lhs: Matrix<'_, f32>,
    rhs: DenseWeights<'_>,
    start: Option<f32>,
) -> Vec<f32> {
    let (m, [n, _]) = (lhs.rows(), rhs.extents());
    let stride = n + 3;
    let mut y = vec![SENTINEL; m * stride];
    if let Some(start) = start {
        y.chunks_exact_mut(stride).for_each(|y| y[..n].fill(start));
    }
    let out = MatrixMut::new("out", &mut y, [m, n], stride).unwrap();
    let product = DenseGemm { lhs, rhs, outputs: 0..n, accumulate: start.is_some() };
    product.compute(isa, out, &mut DenseWorkspace::new()).unwrap();
    y.chunks_exact(stride)
        .flat_map(|y| {
            assert!(y[n..].iter().all(|y| *y == SENTINEL), "wrote outside");
            y[..n].to_vec()
        })
        .collect()
}

pub(crate) const DENSE: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// Every number of rows, every type, in place and interleaved, has the bits of the definition.
#[test]
fn outputs_have_the_bits_of_the_definition_for_every_number_of_rows() {
    const DISTINCT: usize = 70;
    fn check<I: F32Kernels>(isa: I, dtype: DType, [n, k]: [usize; 2], rows: &[usize]) {
        // Rows come again, so that the definition is computed for few of them.
        let some = numbers(DISTINCT * k, 5);
        let most = rows.iter().copied().max().unwrap();
        let a: Vec<f32> = (0..most).flat_map(|row| some[row % DISTINCT * k..][..k].to_vec()).collect();
        let b = Typed::new(dtype, [n, k], k);
        let sets = (n >= INTERLEAVE).then(|| b.interleaved());
        let expected: Vec<f32> = some
            .chunks_exact(k)
            .flat_map(|a| b.values.chunks_exact(k).map(|b| defined::<I>(a, b, 0.0)))
            .collect();
        for &m in rows {
            let lhs = Matrix::new("lhs", &a, [m, k], k).unwrap();
            let layouts = [Some(b.rows().into()), sets.as_ref().map(Typed::sets)];
            for rhs in layouts.into_iter().flatten() {
                for (row, got) in product(isa, lhs, rhs, None).chunks_exact(n).enumerate() {
                    let expected = &expected[row % DISTINCT * n..][..n];
                    assert_eq!(bits(got), bits(expected), "{} {dtype} {rhs:?}, row {row} of {m}", I::NAME);
                }
            }
        }
    }
    let every: Vec<usize> = (1..=DISTINCT).chain([512]).collect();
    let some = [1, 2, 4, 5, 8, 9, 17, 70];
    for dtype in DENSE {
        for n in [1, 7, 48, 53, 80] {
            for_every_isa!(check(dtype, [n, 100], &every));
        }
        for k in [1, 7, 8, 9, 31, 1029] {
            for n in [53, 64, 112] {
                for_every_isa!(check(dtype, [n, k], &some));
            }
        }
    }
}

/// Sums start from the outputs where they are to be added to: a caller may cut the depth anywhere.
#[test]
fn cutting_the_depth_changes_no_bit() {
    fn check<I: F32Kernels>(isa: I, dtype: DType, m: usize) {
        let (n, k) = (37, 150);
        let (a, b) = (numbers(m * k, 3), Typed::new(dtype, [n, k], k));
        let sets = b.interleaved();
        for rhs in [b.rows().into(), sets.sets()] {
            let lhs = Matrix::new("lhs", &a, [m, k], k).unwrap();
            let whole = product(isa, lhs, rhs, Some(0.25));
            let mut y = vec![0.25; m * n];
            for cut in [0..1, 1..64, 64..67, 67..150] {
                let out = MatrixMut::new("out", &mut y, [m, n], n).unwrap();
                let (lhs, rhs) = (lhs.tile(0..m, cut.clone()).unwrap(), rhs.tile(0..n, cut).unwrap());
                let part = DenseGemm { lhs, rhs, outputs: 0..n, accumulate: true };
                part.compute(isa, out, &mut DenseWorkspace::new()).unwrap();
            }
            assert_eq!(bits(&y), bits(&whole), "{} {dtype} {m}", I::NAME);
            let expected: Vec<f32> = (0..m * n)
                .map(|i| defined::<I>(&a[i / n * k..][..k], &b.values[i % n * k..][..k], 0.25))
                .collect();
            assert_eq!(bits(&y), bits(&expected), "{} {dtype} {m}", I::NAME);
        }
    }
    for dtype in DENSE {
        for m in [1, 3, 8, 20] {
            for_every_isa!(check(dtype, m));
        }
    }
}

/// A tile of outputs has the bits that all of them have; strides and gaps change nothing.
#[test]
fn a_range_of_outputs_has_the_bits_of_all() {
    fn check<I: F32Kernels>(isa: I, dtype: DType, m: usize) {
        let (n, k, a_stride) = (83, 70, 77);
        let (a, b) = (numbers(m * a_stride, 9), Typed::new(dtype, [n, k], k));
        let (gaps, sets) = (Typed::new(dtype, [n, k], k + 5), b.interleaved());
        let lhs = Matrix::new("lhs", &a, [m, k], a_stride).unwrap();
        for rhs in [b.rows().into(), gaps.rows().into(), sets.sets()] {
            let whole = product(isa, lhs, rhs, None);
            for outputs in [0..16, 16..48, 64..80, 16..80, 64..81, 80..83, 0..83] {
                let mut y = vec![0.0; m * outputs.len()];
                let out = MatrixMut::new("out", &mut y, [m, outputs.len()], outputs.len()).unwrap();
                let part = DenseGemm { lhs, rhs, outputs: outputs.clone(), accumulate: false };
                part.compute(isa, out, &mut DenseWorkspace::new()).unwrap();
                for (row, got) in y.chunks_exact(outputs.len()).enumerate() {
                    assert_eq!(bits(got), bits(&whole[row * n..][outputs.clone()]), "{} {dtype}", I::NAME);
                }
            }
        }
    }
    for dtype in DENSE {
        for m in [1, 4, 11] {
            for_every_isa!(check(dtype, m));
        }
    }
}

#[test]
fn products_whose_extents_differ_are_refused() {
    let isa = Portable::detect().unwrap();
    let (a, b) = (numbers(64, 1), Typed::new(DType::F32, [4, 8], 8));
    let mut y = vec![0.0; 64];
    let mut refuse = |[m, k]: [usize; 2], [rows, columns]: [usize; 2]| {
        let lhs = Matrix::new("lhs", &a, [m, k], k).unwrap();
        let out = MatrixMut::new("out", &mut y, [rows, columns], columns).unwrap();
        gemv(isa, lhs, b.rows().into(), out)
    };
    let extent = |argument, what, expected, got| Err(GemmError::Extent { argument, what, expected, got });
    assert_eq!(refuse([2, 8], [2, 4]), Ok(()));
    assert_eq!(refuse([2, 7], [2, 4]), extent("lhs", "columns", 8, 7));
    assert_eq!(refuse([2, 8], [3, 4]), extent("out", "rows", 2, 3));
    assert_eq!(refuse([2, 8], [2, 5]), extent("out", "columns", 4, 5));
}

#[test]
fn cut_sets_of_interleaved_weights_are_refused() {
    let isa = Portable::detect().unwrap();
    let (a, b) = (numbers(8, 1), Typed::new(DType::F16, [32, 8], 8));
    let (sets, mut y) = (b.interleaved(), [0.0; 64]);
    let mut refuse = |outputs: std::ops::Range<usize>| {
        let lhs = Matrix::new("lhs", &a, [1, 8], 8).unwrap();
        let out = MatrixMut::new("out", &mut y, [1, outputs.len()], 64).unwrap();
        DenseGemm { lhs, rhs: sets.sets(), outputs, accumulate: false }.compute(
            isa,
            out,
            &mut DenseWorkspace::new(),
        )
    };
    let cut = |got| Err(GemmError::Multiple { argument: "outputs", what: "bounds", of: INTERLEAVE, got });
    assert_eq!(refuse(16..32), Ok(()));
    assert_eq!(refuse(8..16), cut(8));
    assert_eq!(refuse(0..24), cut(24));
    assert_eq!(refuse(0..48), Err(GemmError::Length { argument: "outputs", needed: 48, got: 32 }));
    let odd = Typed::new(DType::F32, [2, 24], 24);
    assert!(matches!(DenseWeights::interleaved(odd.rows(), None), Err(GemmError::Multiple { got: 24, .. })));
    let (set, tail) = (Typed::new(DType::F32, [1, 128], 128), Typed::new(DType::F32, [2, 9], 9));
    let deeper = DenseWeights::interleaved(set.rows(), Some(tail.rows()));
    assert!(matches!(deeper, Err(GemmError::Extent { argument: "tail", expected: 8, got: 9, .. })));
    assert!(matches!(interleave(isa, DType::F16, &[0; 31], &mut [0; 31]), Err(GemmError::Multiple { .. })));
    assert!(matches!(interleave(isa, DType::F16, &[0; 32], &mut [0; 31]), Err(GemmError::Length { .. })));
    assert!(matches!(interleave(isa, DType::I32, &[0; 64], &mut [0; 64]), Err(GemmError::Format { .. })));
}

fn check_interleave<I: F32Kernels>(isa: I) {
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let size = dtype.size();
        for depth in [1, 15, 16, 17, 32, 33, 64, 100] {
            let from: Vec<u8> = (0..INTERLEAVE * depth * size).map(|i| (i * 31 % 251) as u8).collect();
            let mut to = vec![0; from.len()];
            interleave(isa, dtype, &from, &mut to).unwrap();
            for (i, element) in to.chunks_exact(size).enumerate() {
                let (row, at) = (i % INTERLEAVE, i / INTERLEAVE);
                let expected = &from[(row * depth + at) * size..][..size];
                assert_eq!(element, expected, "{dtype}, {}, row {row}, element {at} of {depth}", I::NAME);
            }
        }
    }
}

#[test]
fn element_l_of_sixteen_rows_lies_at_place_l() {
    for_every_isa!(check_interleave());
}
