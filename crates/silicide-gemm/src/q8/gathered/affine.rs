//! Affine codes of MLX, but those of whole bytes. Eight codes are as many bytes as each has bits, so bytes are moved to their
//! lanes and codes shifted out there. Scales and biases lie in planes; they are unpacked as for panels, one column to a lane.

use super::super::STREAM_ROWS;
use super::super::affine::scales_and_biases;
use super::super::format::{Place, prefetch};
use super::super::panel::store;
use super::super::product::Product;
use super::super::quantize::Row;
use super::super::source::{Source, Strided};
use super::super::unit::Unit;
use super::{Arranged, LANES, MOST_STRETCHES, PAIRS, PARTS, RUNS, Stretch, arrange, dots, join, transpose};
use crate::isa::Avx512;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Bytes of a vector.
const VECTOR: usize = 64;
/// Vectors of a stretch of the longest codes.
const VECTORS: usize = 3;

/// A stretch of codes of so many bits.
#[derive(Clone, Copy)]
struct Affine<const BITS: usize>([__m512i; VECTORS]);

/// Where the bytes of a part are: in which vector of the stretch, and where there.
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

impl<const BITS: usize> Affine<BITS> {
    const PLACES: [Places; PARTS] =
        [places::<BITS>(0), places::<BITS>(1), places::<BITS>(2), places::<BITS>(3)];
    /// By what bits codes are shifted.
    const SHIFTS: i64 = 0x0706_0504_0302_0100 * BITS as i64;
}

// SAFETY: reads as many bytes as a stretch has.
unsafe impl<const BITS: usize> Stretch for Affine<BITS> {
    const BYTES: usize = RUNS * PARTS * BITS;
    const HALVES: bool = false;
    const ZERO: i32 = 0;
    const SIGNED: bool = false;

    #[inline(always)]
    unsafe fn load(at: *const u8) -> Affine<BITS> {
        // SAFETY: the caller's promise; nothing is read where there is nothing.
        unsafe {
            let mut vectors = [_mm512_setzero_si512(); VECTORS];
            for (i, vector) in vectors.iter_mut().enumerate() {
                let left = Self::BYTES.saturating_sub(i * VECTOR);
                if left >= VECTOR {
                    *vector = _mm512_loadu_si512(at.add(i * VECTOR).cast());
                } else if left > 0 {
                    *vector = _mm512_maskz_loadu_epi8((1 << left) - 1, at.add(i * VECTOR).cast());
                }
            }
            Affine(vectors)
        }
    }

    #[inline(always)]
    unsafe fn levels(self, part: usize) -> __m512i {
        // SAFETY: the caller's promise.
        unsafe {
            let Places { bytes, vectors } = &Self::PLACES[part];
            let places = _mm512_load_si512(bytes.as_ptr().cast());
            let mut codes = _mm512_permutexvar_epi8(places, self.0[0]);
            for (i, vector) in vectors.iter().enumerate().skip(1) {
                if i * VECTOR < Self::BYTES {
                    codes = _mm512_mask_permutexvar_epi8(codes, *vector, places, self.0[i]);
                }
            }
            let codes = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(Self::SHIFTS), codes);
            _mm512_and_si512(codes, _mm512_set1_epi8((1 << BITS) - 1))
        }
    }

    #[inline(always)]
    unsafe fn signs(self, _: usize) -> __mmask64 {
        0
    }
}

/// Computes the outputs of some columns of codes of so many bits, if the rows are few; says whether it could.
///
/// # Safety
///
/// As for [`super::multiply`]; scales and biases are in planes.
pub(in super::super) unsafe fn multiply(bits: usize, product: &Product, columns: Range<usize>) -> bool {
    if !super::fits(product) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match bits {
            2 => rows::<2>(product, columns),
            3 => rows::<3>(product, columns),
            4 => rows::<4>(product, columns),
            5 => rows::<5>(product, columns),
            6 => rows::<6>(product, columns),
            _ => false,
        }
    }
}

/// [`columns`] for the product's number of rows.
unsafe fn rows<const BITS: usize>(product: &Product, range: Range<usize>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match product.rows {
            1 => columns::<BITS, 1>(product, range),
            2..=STREAM_ROWS => columns::<BITS, STREAM_ROWS>(product, range),
            _ => return false,
        }
    }
    true
}

/// Scales and biases of a stretch, one column to a lane.
#[repr(align(64))]
struct Scales(MaybeUninit<[[[f32; LANES]; 2]; RUNS]>);

/// Computes the outputs of some columns in rows of which there are at most `ROWS`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,avx2,fma,f16c"
)]
unsafe fn columns<const BITS: usize, const ROWS: usize>(product: &Product, range: Range<usize>) {
    let arranged = product.staging::<[[Arranged; MOST_STRETCHES]; ROWS]>().cast::<Arranged>();
    let mut scales = Scales(MaybeUninit::uninit());
    let scales = Place { to: scales.0.as_mut_ptr().cast(), width: LANES, words: 2, before: 0 };
    let bytes = <Affine<BITS> as Stretch>::BYTES;
    // SAFETY: the caller's promise. Rows that there are none of are the last one, computed and not written.
    unsafe {
        let rows: [*const u8; ROWS] = arrange::<Affine<BITS>, ROWS>(product, arranged);
        for column in range.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (column + LANES).saturating_sub(range.end);
            let from = product.weights.skip(column - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let mut sums = [_mm512_setzero_ps(); ROWS];
            for stretch in 0..product.runs / RUNS {
                scales_and_biases::<Avx512, Strided>(Strided::new(from), stretch * RUNS, RUNS, scales);
                let first = from.start.add(stretch * bytes);
                let next = after.wrapping_add(stretch * LANES * bytes);
                let mut all = MaybeUninit::<[[__m512i; PAIRS]; ROWS]>::uninit();
                let all = all.as_mut_ptr().cast::<__m512i>();
                for pair in 0..PAIRS {
                    let lines =
                        const { (LANES * <Affine<BITS> as Stretch>::BYTES).div_ceil(VECTOR).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.add(2 * pair * from.stride);
                    let one = dots::<_, ROWS>(Affine::<BITS>::load(at), arranged.add(stretch));
                    let two =
                        dots::<_, ROWS>(Affine::<BITS>::load(at.add(from.stride)), arranged.add(stretch));
                    for row in 0..ROWS {
                        *all.add(row * PAIRS + pair) = join(one[row][0], two[row][0]);
                    }
                }
                for (row, sum) in sums.iter_mut().enumerate() {
                    let dots = transpose(all.add(row * PAIRS).cast());
                    *sum = add(*sum, dots, scales, (rows[row], product.runs, stretch * RUNS));
                }
            }
            for (row, sum) in sums.iter().enumerate().take(product.rows) {
                store(*sum, product.y.add(row * product.y_stride + column), range.end - column);
            }
        }
    }
}

/// Adds the products of eight runs from `first` on, and what biases make of the activations, of a rounded row of so many.
#[inline(always)]
unsafe fn add(
    mut sum: __m512,
    dots: [__m512; RUNS],
    scales: Place,
    (row, runs, first): (*const u8, usize, usize),
) -> __m512 {
    let place = Row::of(runs);
    // SAFETY: the caller's promise.
    unsafe {
        for (run, dots) in dots.into_iter().enumerate() {
            let at = |offset: usize| row.add(offset + 4 * (first + run));
            let activations = at(place.scales).cast::<f32>().read_unaligned();
            let codes = at(place.first).cast::<i32>().read_unaligned()
                + at(place.second).cast::<i32>().read_unaligned();
            let (scale, bias) = (_mm512_load_ps(scales.scale(run, 0)), _mm512_load_ps(scales.scale(run, 1)));
            let product = Avx512::scaled(_mm512_castps_si512(dots), scale, Avx512::offset(scale));
            sum = _mm512_fmadd_ps(product, _mm512_set1_ps(activations), sum);
            sum = _mm512_fmadd_ps(bias, _mm512_set1_ps(activations * codes as f32), sum);
        }
        sum
    }
}
