//! Affine codes of MLX of 2 to 6 bits. Eight codes are as many bytes as each has bits, so bytes are moved to their lanes and codes
//! shifted out there. Scales and biases lie in planes; they are unpacked as for panels, one output to a lane.

use super::{
    ArrangedRow, GROUPS, LANES, MAX_SUPER_BLOCKS, PAIRS, PARTS, SuperBlock, arrange, dots, join, transpose,
};
use crate::isa::{Avx512, Avx512Vbmi, IntLanes, Task};
use crate::prefetch::LINE;
use crate::q8::GEMV_ROWS;
use crate::q8::formats::affine::AffineScales;
use crate::q8::formats::{ScaleSlots, prefetch};
use crate::q8::gemm::Q8Product;
use crate::q8::layout::{Strided, VectorRows};
use crate::q8::microkernel::store;
use crate::q8::quantize::RowOffsets;
use crate::q8::weights::WeightEncoding;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bytes of a vector.
const VECTOR: usize = 64;
/// Vectors of a super-block of the longest codes.
const VECTORS: usize = 3;

/// 256 codes of `BITS` bits: `BYTES` is `32 * BITS`.
#[derive(Clone, Copy)]
struct Affine<const BITS: usize, const BYTES: usize>([__m512i; VECTORS]);

/// Where the bytes of a part are: in which vector of the super-block, and where there.
#[repr(C, align(64))]
struct Places {
    bytes: [u8; VECTOR],
    vectors: [u64; VECTORS],
}

const fn places<const BITS: usize>(part: usize) -> Places {
    let mut places = Places { bytes: [0; VECTOR], vectors: [0; VECTORS] };
    let mut lane = 0;
    while lane < VECTOR {
        if lane % 8 < BITS {
            let byte = (lane / 8 * PARTS + part) * BITS + lane % 8;
            places.bytes[lane] = (byte % VECTOR) as u8;
            places.vectors[byte / VECTOR] |= 1 << lane;
        }
        lane += 1;
    }
    places
}

impl<const BITS: usize, const BYTES: usize> Affine<BITS, BYTES> {
    const PLACES: [Places; PARTS] =
        [places::<BITS>(0), places::<BITS>(1), places::<BITS>(2), places::<BITS>(3)];
    /// By what bits codes are shifted.
    const SHIFTS: i64 = 0x0706_0504_0302_0100 * BITS as i64;
}

impl<const BITS: usize, const BYTES: usize> SuperBlock for Affine<BITS, BYTES> {
    type Bytes = [u8; BYTES];
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = false;

    #[inline(always)]
    fn load(_: Avx512Vbmi, bytes: &[u8; BYTES]) -> Self {
        const { assert!(BYTES == GROUPS * PARTS * BITS) };
        // SAFETY: the token proves the instructions; the masks leave out what is not in the array.
        unsafe {
            let mut vectors = [_mm512_setzero_si512(); VECTORS];
            for (i, vector) in vectors.iter_mut().enumerate() {
                let left = BYTES.saturating_sub(i * VECTOR);
                let at = bytes.as_ptr().wrapping_add(i * VECTOR);
                if left >= VECTOR {
                    *vector = _mm512_loadu_si512(at.cast());
                } else if left > 0 {
                    *vector = _mm512_maskz_loadu_epi8((1 << left) - 1, at.cast());
                }
            }
            Affine(vectors)
        }
    }

    #[inline(always)]
    fn levels(self, _: Avx512Vbmi, part: usize) -> __m512i {
        let Places { bytes, vectors } = &Self::PLACES[part];
        // SAFETY: the token proves the instructions; `Places` is aligned to 64 bytes, and begins with as many.
        unsafe {
            let places = _mm512_load_si512(bytes.as_ptr().cast());
            let mut codes = _mm512_permutexvar_epi8(places, self.0[0]);
            for (i, vector) in vectors.iter().enumerate().skip(1) {
                if i * VECTOR < BYTES {
                    codes = _mm512_mask_permutexvar_epi8(codes, *vector, places, self.0[i]);
                }
            }
            let codes = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(Self::SHIFTS), codes);
            _mm512_and_si512(codes, _mm512_set1_epi8((1 << BITS) - 1))
        }
    }
}

/// Computes a GEMV of affine codes, if there is one for their bits, the rows are few and the CPU has the instructions; returns whether it did.
///
/// # Safety
/// As for [`Q8Product::multiply`]; weights are in this encoding.
pub(in crate::q8) unsafe fn gemv(
    isa: Avx512,
    encoding: WeightEncoding,
    product: &Q8Product<'_>,
    outputs: Range<usize>,
) -> bool {
    let WeightEncoding::Affine(format) = encoding else { return false };
    let Some(isa) = Avx512Vbmi::detect(isa).filter(|_| super::fits(product)) else { return false };
    match format.bits() {
        2 => by_rows::<2, 64>(isa, product, outputs),
        3 => by_rows::<3, 96>(isa, product, outputs),
        4 => by_rows::<4, 128>(isa, product, outputs),
        5 => by_rows::<5, 160>(isa, product, outputs),
        6 => by_rows::<6, 192>(isa, product, outputs),
        _ => return false,
    }
    true
}

/// Computes the outputs, for one row or for at most [`GEMV_ROWS`].
fn by_rows<const BITS: usize, const BYTES: usize>(
    isa: Avx512Vbmi,
    product: &Q8Product<'_>,
    outputs: Range<usize>,
) {
    if product.lhs.rows() == 1 {
        isa.run(AffineGemv::<BITS, BYTES, 1> { isa, product, outputs });
    } else {
        isa.run(AffineGemv::<BITS, BYTES, GEMV_ROWS> { isa, product, outputs });
    }
}

/// Scales and biases of a super-block, one output to a lane.
#[repr(align(64))]
struct Scales(MaybeUninit<[[[f32; LANES]; 2]; GROUPS]>);

/// The GEMV of codes of `BITS` bits, of at most `ROWS` rows.
struct AffineGemv<'a, const BITS: usize, const BYTES: usize, const ROWS: usize> {
    isa: Avx512Vbmi,
    product: &'a Q8Product<'a>,
    outputs: Range<usize>,
}

impl<const BITS: usize, const BYTES: usize, const ROWS: usize> Task for AffineGemv<'_, BITS, BYTES, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, product, outputs } = self;
        let arranged = product.staging::<[[ArrangedRow; MAX_SUPER_BLOCKS]; ROWS]>().cast::<ArrangedRow>();
        let mut scales = Scales(MaybeUninit::uninit());
        // SAFETY: the array has two vectors for each of eight groups.
        let scales = unsafe { ScaleSlots::<Avx512>::new(scales.0.as_mut_ptr().cast(), GROUPS, 2) };
        // SAFETY: the workspace has room for `ROWS` rows of MAX_SUPER_BLOCKS, which `fits` has checked.
        unsafe { arrange::<Affine<BITS, BYTES>, ROWS>(product, arranged) };
        for output in outputs.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (output + LANES).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let weights = VectorRows::<Avx512, Strided, AffineScales>::new(isa.avx512(), from);
            let mut sums = [isa.avx512_zeros(); ROWS];
            for block in 0..product.lhs.groups() / GROUPS {
                // SAFETY: `Q8Product::multiply` says that LANES weight rows have these groups, and planes their scales.
                unsafe { weights.blocks(block * GROUPS, GROUPS) }.plane_scales(scales);
                let first = from.start.wrapping_add(block * BYTES);
                let next = after.wrapping_add(block * LANES * BYTES);
                let mut all = MaybeUninit::<[[__m512i; PAIRS]; ROWS]>::uninit();
                let all = all.as_mut_ptr().cast::<__m512i>();
                for pair in 0..PAIRS {
                    let lines = const { (LANES * BYTES).div_ceil(LINE).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.wrapping_add(2 * pair * from.stride);
                    // SAFETY: `Q8Product::multiply` says that LANES weight rows have these codes; activations were arranged, and there is room
                    // for the dot products of all pairs.
                    unsafe {
                        let load = |at: *const u8| Affine::<BITS, BYTES>::load(isa, &*at.cast());
                        let one = dots::<_, ROWS>(isa, load(at), arranged.add(block));
                        let two = dots::<_, ROWS>(isa, load(at.add(from.stride)), arranged.add(block));
                        for row in 0..ROWS {
                            *all.add(row * PAIRS + pair) = join(isa, one[row][0], two[row][0]);
                        }
                    }
                }
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the dot products of all pairs were written, and the scales of this super-block unpacked.
                    unsafe {
                        let dots = transpose(isa, &*all.add(row * PAIRS).cast());
                        *sum = add(isa, *sum, dots, scales, (product, row, block * GROUPS));
                    }
                }
            }
            for (row, sum) in sums.iter().enumerate().take(product.lhs.rows()) {
                let y = product.y.wrapping_add(row * product.y_stride + output);
                // SAFETY: the product's outputs of these rows can be written (`Q8Product::multiply`).
                unsafe { store(isa.avx512(), *sum, y, outputs.end - output) };
            }
        }
    }
}

/// Adds the products of eight groups from `first` on of row `row`, and what biases make of the activations.
///
/// # Safety
/// The scales and biases of the groups were stored; the row has the groups.
#[inline(always)]
unsafe fn add(
    isa: Avx512Vbmi,
    mut sum: __m512,
    dots: [__m512; GROUPS],
    scales: ScaleSlots<Avx512>,
    (product, row, first): (&Q8Product<'_>, usize, usize),
) -> __m512 {
    let (row, offsets) = (product.lhs.row(row), RowOffsets::new(product.lhs.groups()));
    let isa = isa.avx512();
    // SAFETY: the token proves the instructions; scales and row can be read, by this function's contract.
    unsafe {
        for (group, dots) in dots.into_iter().enumerate() {
            let at = |offset: usize| row.add(offset + 4 * (first + group));
            let x_scale = at(offsets.scales).cast::<f32>().read_unaligned();
            let codes = at(offsets.first).cast::<i32>().read_unaligned();
            let codes = codes.wrapping_add(at(offsets.second).cast::<i32>().read_unaligned());
            let (scale, bias) = (scales.get(isa, group, 0), scales.get(isa, group, 1));
            let product = isa.scale(_mm512_castps_si512(dots), scale, isa.scale_offset(scale));
            sum = _mm512_fmadd_ps(product, _mm512_set1_ps(x_scale), sum);
            sum = _mm512_fmadd_ps(bias, _mm512_set1_ps(x_scale * codes as f32), sum);
        }
        sum
    }
}
