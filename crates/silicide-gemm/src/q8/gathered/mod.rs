//! A few rows times weights whose codes are indices of books or digits, with AVX-512 and its byte permutations (VBMI, BITALG):
//! lanes are runs of one column, so codes are looked up eight groups at a time and nothing is spelled or transposed but products.
//!
//! A stretch is 256 weights of a column, eight runs. Part `i` of a stretch, of four, has the eighth `i` of each run: a lane of 64
//! bits is eight weights of its run. Activations are arranged likewise, once for all columns. A stretch thus ends in one vector of
//! dot products, or two where halves of runs have their own scales, two lanes to a run; those of two columns are joined, scaled,
//! and with those of fourteen others transposed.
//!
//! Dot products are exact, and scaled and summed as in [`panel`](super::panel), so outputs have the same bits either way.

pub(super) mod affine;
mod iq1;
mod iq2;
mod iq3;
mod ternary;

use super::STREAM_ROWS;
use super::format::{LEN, prefetch};
use super::panel::store;
use super::product::Product;
use super::quantize::Row;
use super::stream::MOST_RUNS;
use super::unit::Unit;
use crate::isa::Avx512;
use iq1::{Iq1M, Iq1S};
use iq2::{Iq2S, Iq2Xs, Iq2Xxs};
use iq3::{Iq3S, Iq3Xxs};
use silicide_quant::Format;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;
use ternary::{Q2_0, Tq1_0};

/// Runs of a stretch.
const RUNS: usize = 8;
/// Parts of a stretch.
const PARTS: usize = 4;
/// The most stretches of a column.
const MOST_STRETCHES: usize = MOST_RUNS / RUNS;
/// Columns that are summed at a time.
const LANES: usize = 16;
/// Pairs of them.
const PAIRS: usize = LANES / 2;
/// Bytes of a cache line.
const LINE: usize = 64;

/// A stretch of a column in a format, in registers.
///
/// # Safety
///
/// For methods the instruction sets of [`is_available`] are present; a stretch is read where it is.
unsafe trait Stretch: Copy {
    /// Its bytes.
    const BYTES: usize;
    /// Whether halves of runs have scales of their own.
    const HALVES: bool;
    /// What is added to weights to make levels.
    const ZERO: i32;
    /// Whether there are signs beside levels.
    const SIGNED: bool;

    /// Reads a stretch.
    unsafe fn load(at: *const u8) -> Self;
    /// The levels of a part, which are not negative.
    unsafe fn levels(self, part: usize) -> __m512i;
    /// Which of them are negated.
    unsafe fn signs(self, part: usize) -> __mmask64;
}

/// A stretch with its scales.
///
/// # Safety
///
/// As for [`Stretch`].
unsafe trait Scaled: Stretch {
    /// Scales of the eight runs, or of one half of each.
    unsafe fn scales(self, half: usize) -> __m256;
}

/// A stretch of rounded activations.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Arranged {
    parts: [[u64; RUNS]; PARTS],
    /// What dot products of runs, or halves of runs, start from.
    starts: [[u64; RUNS]; 2],
}

/// Whether this machine has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512vbmi") && is_x86_feature_detected!("avx512bitalg")
}

/// Computes the outputs of some columns in a format, if it is one of those here and the rows are few; says whether it could.
///
/// # Safety
///
/// As for [`Product::multiply`], on a machine with AVX-512 where [`is_available`].
pub(super) unsafe fn multiply(format: Format, product: &Product, columns: Range<usize>) -> bool {
    if !fits(product) {
        return false;
    }
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            Format::Iq1S => rows::<Iq1S>(product, columns),
            Format::Iq1M => rows::<Iq1M>(product, columns),
            Format::Iq2Xxs => rows::<Iq2Xxs>(product, columns),
            Format::Iq2Xs => rows::<Iq2Xs>(product, columns),
            Format::Iq2S => rows::<Iq2S>(product, columns),
            Format::Iq3Xxs => rows::<Iq3Xxs>(product, columns),
            Format::Iq3S => rows::<Iq3S>(product, columns),
            Format::Tq1_0 => rows::<Tq1_0>(product, columns),
            Format::Q2_0 => rows::<Q2_0>(product, columns),
            _ => false,
        }
    }
}

/// Whether columns are whole stretches, not too many, and one after the other.
fn fits(product: &Product) -> bool {
    product.runs.is_multiple_of(RUNS) && product.runs <= MOST_RUNS && product.weights.interleaved.is_none()
}

/// [`columns`] for the product's number of rows.
unsafe fn rows<F: Scaled>(product: &Product, range: Range<usize>) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match product.rows {
            1 => columns::<F, 1>(product, range),
            2..=STREAM_ROWS => columns::<F, STREAM_ROWS>(product, range),
            _ => return false,
        }
    }
    true
}

/// Computes the outputs of some columns in rows of which there are at most `ROWS`.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512cd,avx512vl,avx512vnni,avx512vbmi,avx512bitalg,avx2,fma,f16c"
)]
unsafe fn columns<F: Scaled, const ROWS: usize>(product: &Product, range: Range<usize>) {
    let arranged = product.staging::<[[Arranged; MOST_STRETCHES]; ROWS]>().cast::<Arranged>();
    let place = Row::of(product.runs);
    // SAFETY: the caller's promise. Rows that there are none of are the last one, computed and not written.
    unsafe {
        let rows: [*const u8; ROWS] = arrange::<F, ROWS>(product, arranged);
        for column in range.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (column + LANES).saturating_sub(range.end);
            let from = product.weights.skip(column - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let mut sums = [_mm512_setzero_ps(); ROWS];
            for stretch in 0..product.runs / RUNS {
                let first = from.start.add(stretch * F::BYTES);
                let next = after.wrapping_add(stretch * LANES * F::BYTES);
                let mut products = MaybeUninit::<[[[__m512; PAIRS]; 2]; ROWS]>::uninit();
                let products = products.as_mut_ptr().cast::<__m512>();
                for pair in 0..PAIRS {
                    // A part at a time: all of it at once would fill the queue to memory.
                    let lines = const { (LANES * F::BYTES).div_ceil(LINE).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.add(2 * pair * from.stride);
                    multiply_pair::<F, ROWS>(
                        [at, at.add(from.stride)],
                        arranged.add(stretch),
                        products.add(pair),
                    );
                }
                for (row, sum) in sums.iter_mut().enumerate() {
                    let scales = rows[row].add(place.scales).cast::<f32>().add(stretch * RUNS);
                    *sum = add::<F>(*sum, products.add(row * 2 * PAIRS), scales);
                }
            }
            for (row, sum) in sums.iter().enumerate().take(product.rows) {
                store(*sum, product.y.add(row * product.y_stride + column), range.end - column);
            }
        }
    }
}

/// Arranges the activations of rows, [`MOST_STRETCHES`] to each; returns where rows begin.
#[inline(always)]
unsafe fn arrange<F: Stretch, const ROWS: usize>(product: &Product, to: *mut Arranged) -> [*const u8; ROWS] {
    let place = Row::of(product.runs);
    let mut rows = [product.a; ROWS];
    for (row, start) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            *start = product.a.add(row.min(product.rows - 1) * place.bytes);
            for run in 0..product.runs {
                let to = to.add(row * MOST_STRETCHES + run / RUNS);
                for part in 0..PARTS {
                    (*to).parts[part][run % RUNS] =
                        start.add(run * LEN + 8 * part).cast::<u64>().read_unaligned();
                }
                let first = start.add(place.first).cast::<i32>().add(run).read_unaligned();
                let second = start.add(place.second).cast::<i32>().add(run).read_unaligned();
                let sums = if F::HALVES { [first, second] } else { [first + second, 0] };
                for (half, sum) in sums.into_iter().enumerate() {
                    // The other lane of a run starts from zero.
                    (*to).starts[half][run % RUNS] = u64::from((Avx512::START - F::ZERO * sum) as u32);
                }
            }
        }
    }
    rows
}

/// Writes the scaled dot products of a stretch of two columns with rows: those of run `i` in lane `i` of 64 bits, the first column's
/// first. Those of the second halves of runs, if they are apart, come [`PAIRS`] vectors later, and those of the next row as many
/// after these.
#[inline(always)]
unsafe fn multiply_pair<F: Scaled, const ROWS: usize>(
    at: [*const u8; 2],
    rows: *const Arranged,
    to: *mut __m512,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (one, two) = (F::load(at[0]), F::load(at[1]));
        let (first, second) = (dots::<F, ROWS>(one, rows), dots::<F, ROWS>(two, rows));
        let order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        for half in 0..1 + usize::from(F::HALVES) {
            let (a, b) = (_mm512_castps256_ps512(one.scales(half)), _mm512_castps256_ps512(two.scales(half)));
            let scales = _mm512_permutex2var_ps(a, order, b);
            let offset = Avx512::offset(scales);
            for row in 0..ROWS {
                let dots = join(first[row][half], second[row][half]);
                *to.add((2 * row + half) * PAIRS) = Avx512::scaled(dots, scales, offset);
            }
        }
    }
}

/// Dot products of two columns in one vector: those of a run side by side, each the sum of two lanes.
#[inline(always)]
unsafe fn join(first: __m512i, second: __m512i) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm512_mask_shuffle_epi32::<0xb1>(first, 0xaaaa, second);
        let high = _mm512_mask_shuffle_epi32::<0xb1>(second, 0x5555, first);
        _mm512_add_epi32(low, high)
    }
}

/// Dot products of a stretch of a column with rows, or of both halves of its runs, two lanes to a run.
#[inline(always)]
unsafe fn dots<F: Stretch, const ROWS: usize>(stretch: F, rows: *const Arranged) -> [[__m512i; 2]; ROWS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut dots = [[_mm512_setzero_si512(); 2]; ROWS];
        for (row, dots) in dots.iter_mut().enumerate() {
            let arranged = rows.add(row * MOST_STRETCHES);
            dots[0] = _mm512_load_si512((&raw const (*arranged).starts[0]).cast());
            if F::HALVES {
                dots[1] = _mm512_load_si512((&raw const (*arranged).starts[1]).cast());
            }
        }
        for part in 0..PARTS {
            let levels = stretch.levels(part);
            let signs = if F::SIGNED { stretch.signs(part) } else { 0 };
            let half = if F::HALVES { 2 * part / PARTS } else { 0 };
            for (row, dots) in dots.iter_mut().enumerate() {
                let mut x =
                    _mm512_load_si512((&raw const (*rows.add(row * MOST_STRETCHES)).parts[part]).cast());
                if F::SIGNED {
                    x = _mm512_mask_sub_epi8(x, signs, _mm512_setzero_si512(), x);
                }
                dots[half] = _mm512_dpbusd_epi32(dots[half], levels, x);
            }
        }
        dots
    }
}

/// Adds the products of a stretch of sixteen columns, run by run, times the scales of activations.
#[inline(always)]
unsafe fn add<F: Scaled>(mut sum: __m512, products: *const __m512, scales: *const f32) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let first = transpose(products);
        let second = if F::HALVES { transpose(products.add(PAIRS)) } else { first };
        for run in 0..RUNS {
            let scale = _mm512_set1_ps(scales.add(run).read_unaligned());
            sum = _mm512_fmadd_ps(first[run], scale, sum);
            if F::HALVES {
                sum = _mm512_fmadd_ps(second[run], scale, sum);
            }
        }
        sum
    }
}

/// Eight vectors of eight lanes of 64 bits, transposed.
#[inline(always)]
unsafe fn transpose(from: *const __m512) -> [__m512; RUNS] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut even = [_mm512_setzero_pd(); 4];
        let mut odd = [_mm512_setzero_pd(); 4];
        for i in 0..4 {
            let (a, b) = (_mm512_castps_pd(*from.add(2 * i)), _mm512_castps_pd(*from.add(2 * i + 1)));
            even[i] = _mm512_unpacklo_pd(a, b);
            odd[i] = _mm512_unpackhi_pd(a, b);
        }
        let ([a, b, c, d], [e, f, g, h]) = (transpose_quarters(even), transpose_quarters(odd));
        [a, e, b, f, c, g, d, h]
    }
}

/// Four vectors of four lanes of 128 bits, transposed.
#[inline(always)]
unsafe fn transpose_quarters([a, b, c, d]: [__m512d; 4]) -> [__m512; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (low_ab, high_ab) = (_mm512_shuffle_f64x2::<0x44>(a, b), _mm512_shuffle_f64x2::<0xee>(a, b));
        let (low_cd, high_cd) = (_mm512_shuffle_f64x2::<0x44>(c, d), _mm512_shuffle_f64x2::<0xee>(c, d));
        [
            _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(low_ab, low_cd)),
            _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(low_ab, low_cd)),
            _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(high_ab, high_cd)),
            _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(high_ab, high_cd)),
        ]
    }
}

/// Eight times the same byte.
const fn eight_times(byte: u64) -> i64 {
    (byte * 0x0101_0101_0101_0101) as i64
}

/// Bit `i` of byte `part` of every lane of 64 bits, for byte `i` of the lane.
#[inline(always)]
unsafe fn signs(bytes: __m512i, part: usize) -> __mmask64 {
    // SAFETY: the caller's promise.
    unsafe {
        let byte = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(eight_times(8 * part as u64)), bytes);
        _mm512_test_epi8_mask(byte, _mm512_set1_epi64(0x8040_2010_0804_0201u64 as i64))
    }
}

/// In four bytes of every lane of 64 bits, the seven bits from bit `first + i * step` on, and the eighth that makes their number
/// even.
#[inline(always)]
unsafe fn even_signs(words: __m512i, first: u64, step: u64) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        let shifts = first | (first + step) << 8 | (first + 2 * step) << 16 | (first + 3 * step) << 24;
        let seven = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), words);
        let seven = _mm512_and_si512(seven, _mm512_set1_epi8(0x7f));
        let eighth = _mm512_slli_epi16::<7>(_mm512_popcnt_epi8(seven));
        // The seven, or the highest bit of the eighth.
        _mm512_ternarylogic_epi64::<0xf8>(seven, eighth, _mm512_set1_epi8(-128))
    }
}

/// A half-precision number, as f32 in eight lanes.
#[inline(always)]
unsafe fn half(bits: u16) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe { _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}

/// Scales made of a block's and of small numbers, as decoders have it.
#[inline(always)]
unsafe fn scaled(scale: __m256, factor: f32, numbers: __m256i) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let numbers = _mm256_add_ps(_mm256_set1_ps(0.5), _mm256_cvtepi32_ps(numbers));
        _mm256_mul_ps(_mm256_mul_ps(scale, _mm256_set1_ps(factor)), numbers)
    }
}
