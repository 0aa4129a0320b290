//! GEMV for codes that are indices of books, digits, or of odd sizes (IQ1 to IQ3, TQ1_0, Q2_0, affine codes), with AVX-512 VBMI and
//! BITALG. Lanes are groups of one weight row, so codes are looked up eight groups at a time; only products are transposed.
//!
//! ```text
//! for 16 outputs j:
//!     sum[i] = 0
//!     for super-block s of 256 weights:
//!         for output j of 16, for group g of 8:
//!             dot[j][g] = sum over l of level(code[j][s][g][l]) * x[i][s][g][l]       # i32, exact
//!         for group g of 8:                                                         # as in `microkernel`
//!             sum[i][j] = fma(dot[j][g] * w_scale[j][g], x_scale[i][g], sum[i][j])
//! ```
//!
//! One super-block of a row in registers: part `p` of four is a vector whose 64-bit lane `g` has weights `8p..8p + 8` of group `g`:
//!
//! ```text
//! part 0: | group 0: 0..8   | group 1: 0..8   | ... | group 7: 0..8   |
//! part 1: | group 0: 8..16  | ...
//! ```
//!
//! Activations are arranged likewise, once for all outputs. A super-block thus ends in one vector of dot products, or two where halves
//! of groups have their own scales, two 32-bit lanes to a group; those of two outputs are joined and scaled, and with those of fourteen
//! others transposed. Dot products are exact, and scaled and summed as in [`microkernel`](super::microkernel), so outputs have the same
//! bits either way.

pub(super) mod affine;
mod iq1;
mod iq2;
mod iq3;
mod ternary;

use super::GEMV_ROWS;
use super::formats::prefetch;
use super::gemm::Q8Product;
use super::gemv::MAX_GROUPS;
use super::microkernel::store;
use super::quantize::{QuantizedGroups, RowOffsets};
use super::weights::WeightEncoding;
use crate::isa::{Avx512, Avx512Vbmi, IntLanes, Task};
use crate::prefetch::LINE;
use iq1::{Iq1M, Iq1S};
use iq2::{Iq2S, Iq2Xs, Iq2Xxs};
use iq3::{Iq3S, Iq3Xxs};
use silicide_quant::Format;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;
use ternary::{Q2_0, Tq1_0};

/// Groups of a super-block.
const GROUPS: usize = 8;
/// Parts of a super-block.
const PARTS: usize = 4;
/// The most super-blocks of a row.
const MAX_SUPER_BLOCKS: usize = MAX_GROUPS / GROUPS;
/// Outputs that are summed at a time.
const LANES: usize = 16;
/// Pairs of them.
const PAIRS: usize = LANES / 2;

/// An array of bytes.
///
/// # Safety
/// The type is `[u8; N]`: it has no alignment, and any bytes are a value of it.
unsafe trait ByteArray: 'static {}

// SAFETY: this is the type.
unsafe impl<const N: usize> ByteArray for [u8; N] {}

/// 256 weights of a row in a format, in registers.
trait SuperBlock: Copy {
    /// Its bytes.
    type Bytes: ByteArray;
    /// Whether halves of groups have scales of their own.
    const HALVES: bool;
    /// The offset from weights to levels.
    const ZERO: i32;
    /// Whether there are signs beside levels.
    const SIGNED: bool;

    /// Loads a super-block.
    fn load(isa: Avx512Vbmi, bytes: &Self::Bytes) -> Self;
    /// Returns the levels of a part, which are not negative.
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i;
    /// Returns which of them are negated.
    #[inline(always)]
    fn signs(self, _: Avx512Vbmi, _: usize) -> __mmask64 {
        0
    }
}

/// A super-block with its scales.
trait ScaledSuperBlock: SuperBlock {
    /// Returns the scales of the eight groups, or of one half of each.
    fn scales(self, isa: Avx512Vbmi, bytes: &Self::Bytes, half: usize) -> __m256;
}

/// A super-block of quantized activations.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ArrangedRow {
    parts: [[u64; GROUPS]; PARTS],
    /// The start values of dot products of groups, or of halves of groups.
    starts: [[u64; GROUPS]; 2],
}

/// Computes a GEMV, if the format is one of those here, the rows are few and the CPU has the instructions; returns whether it did.
///
/// # Safety
/// As for [`Q8Product::multiply`]; weights are in this encoding.
pub(super) unsafe fn gemv(
    isa: Avx512,
    encoding: WeightEncoding,
    product: &Q8Product<'_>,
    outputs: Range<usize>,
) -> bool {
    let WeightEncoding::Block(format) = encoding else { return false };
    let Some(isa) = Avx512Vbmi::detect(isa).filter(|_| fits(product)) else { return false };
    match format {
        Format::Iq1S => by_rows::<Iq1S>(isa, product, outputs),
        Format::Iq1M => by_rows::<Iq1M>(isa, product, outputs),
        Format::Iq2Xxs => by_rows::<Iq2Xxs>(isa, product, outputs),
        Format::Iq2Xs => by_rows::<Iq2Xs>(isa, product, outputs),
        Format::Iq2S => by_rows::<Iq2S>(isa, product, outputs),
        Format::Iq3Xxs => by_rows::<Iq3Xxs>(isa, product, outputs),
        Format::Iq3S => by_rows::<Iq3S>(isa, product, outputs),
        Format::Tq1_0 => by_rows::<Tq1_0>(isa, product, outputs),
        Format::Q2_0 => by_rows::<Q2_0>(isa, product, outputs),
        _ => return false,
    }
    true
}

/// Whether rows are few, and weight rows whole super-blocks, not too many, and one after the other.
fn fits(product: &Q8Product<'_>) -> bool {
    let groups = product.lhs.groups();
    groups.is_multiple_of(GROUPS)
        && groups <= MAX_GROUPS
        && product.weights.interleaved.is_none()
        && product.lhs.rows() <= GEMV_ROWS
}

/// Computes the outputs, for one row or for at most [`GEMV_ROWS`].
fn by_rows<F: ScaledSuperBlock>(isa: Avx512Vbmi, product: &Q8Product<'_>, outputs: Range<usize>) {
    if product.lhs.rows() == 1 {
        isa.run(CodebookGemv::<F, 1> { isa, product, outputs, format: PhantomData });
    } else {
        isa.run(CodebookGemv::<F, GEMV_ROWS> { isa, product, outputs, format: PhantomData });
    }
}

/// The GEMV of a format, of at most `ROWS` rows.
struct CodebookGemv<'a, F, const ROWS: usize> {
    isa: Avx512Vbmi,
    product: &'a Q8Product<'a>,
    outputs: Range<usize>,
    format: PhantomData<F>,
}

impl<F: ScaledSuperBlock, const ROWS: usize> Task for CodebookGemv<'_, F, ROWS> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { isa, product, outputs, .. } = self;
        let bytes = size_of::<F::Bytes>();
        let arranged = product.staging::<[[ArrangedRow; MAX_SUPER_BLOCKS]; ROWS]>().cast::<ArrangedRow>();
        let (groups, offsets) = (product.lhs.groups(), RowOffsets::new(product.lhs.groups()));
        // SAFETY: the workspace has room for `ROWS` rows of MAX_SUPER_BLOCKS, which `fits` has checked.
        unsafe { arrange::<F, ROWS>(product, arranged) };
        for output in outputs.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (output + LANES).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let mut sums = [isa.avx512_zeros(); ROWS];
            for block in 0..groups / GROUPS {
                let first = from.start.wrapping_add(block * bytes);
                let next = after.wrapping_add(block * LANES * bytes);
                let mut products = MaybeUninit::<[[[__m512; PAIRS]; 2]; ROWS]>::uninit();
                let products = products.as_mut_ptr().cast::<__m512>();
                for pair in 0..PAIRS {
                    // A part at a time: all of it at once would fill the queue to memory.
                    let lines = const { (LANES * size_of::<F::Bytes>()).div_ceil(LINE).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.wrapping_add(2 * pair * from.stride);
                    // SAFETY: `Q8Product::multiply` says that LANES weight rows have these super-blocks; activations were arranged, and
                    // there is room for the products of all pairs.
                    unsafe {
                        let pair_bytes = [&*at.cast::<F::Bytes>(), &*at.add(from.stride).cast::<F::Bytes>()];
                        multiply_pair::<F, ROWS>(isa, pair_bytes, arranged.add(block), products.add(pair));
                    }
                }
                for (row, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: the products of all pairs and rows were written; rows have the scales of these groups.
                    unsafe {
                        let scales =
                            product.lhs.row(row).add(offsets.scales).cast::<f32>().add(block * GROUPS);
                        *sum = add::<F>(isa, *sum, products.add(row * 2 * PAIRS), scales);
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

impl Avx512Vbmi {
    /// Returns zeros.
    #[inline(always)]
    fn avx512_zeros(self) -> __m512 {
        // SAFETY: the token proves the instruction.
        unsafe { _mm512_setzero_ps() }
    }
}

/// Arranges the activations of rows, [`MAX_SUPER_BLOCKS`] to each. Rows that there are none of are the last one.
///
/// # Safety
/// There is room for the super-blocks of `ROWS` rows.
#[inline(always)]
unsafe fn arrange<F: SuperBlock, const ROWS: usize>(product: &Q8Product<'_>, to: *mut ArrangedRow) {
    for row in 0..ROWS {
        let QuantizedGroups { codes, first, second, .. } =
            product.lhs.groups_of(row, 0..product.lhs.groups());
        for (group, (codes, (first, second))) in codes.iter().zip(first.iter().zip(second)).enumerate() {
            let sums = if F::HALVES { [*first, *second] } else { [first.wrapping_add(*second), 0] };
            // The other lane of a group starts from zero.
            let starts =
                sums.map(|sum| u64::from(Avx512::START.wrapping_sub(F::ZERO.wrapping_mul(sum)) as u32));
            // SAFETY: there is room for the super-blocks of this row, by this function's contract.
            unsafe {
                let to = to.add(row * MAX_SUPER_BLOCKS + group / GROUPS);
                for (part, codes) in codes.as_chunks().0.iter().enumerate() {
                    (*to).parts[part][group % GROUPS] = u64::from_ne_bytes(*codes);
                }
                for (half, start) in starts.into_iter().enumerate() {
                    (*to).starts[half][group % GROUPS] = start;
                }
            }
        }
    }
}

/// Writes the scaled dot products of a super-block of two outputs with rows: those of group `i` in lane `i` of 64 bits, the first
/// output's first. Those of the second halves of groups, if they are apart, come [`PAIRS`] vectors later, and those of the next row as
/// many after these.
///
/// # Safety
/// `rows` has the arranged super-block of `ROWS` rows, [`MAX_SUPER_BLOCKS`] apart; there is room for the products.
#[inline(always)]
unsafe fn multiply_pair<F: ScaledSuperBlock, const ROWS: usize>(
    isa: Avx512Vbmi,
    bytes: [&F::Bytes; 2],
    rows: *const ArrangedRow,
    to: *mut __m512,
) {
    let (one, two) = (F::load(isa, bytes[0]), F::load(isa, bytes[1]));
    // SAFETY: `rows` has the super-block of `ROWS` rows, by this function's contract.
    let (first, second) = unsafe { (dots::<F, ROWS>(isa, one, rows), dots::<F, ROWS>(isa, two, rows)) };
    for half in 0..1 + usize::from(F::HALVES) {
        let scales = interleave(isa, one.scales(isa, bytes[0], half), two.scales(isa, bytes[1], half));
        let offset = isa.avx512().scale_offset(scales);
        for row in 0..ROWS {
            let dots = join(isa, first[row][half], second[row][half]);
            // SAFETY: there is room for the products of every row and half, by this function's contract.
            unsafe { *to.add((2 * row + half) * PAIRS) = isa.avx512().scale(dots, scales, offset) };
        }
    }
}

/// Interleaves two vectors of eight.
#[inline(always)]
fn interleave(_: Avx512Vbmi, a: __m256, b: __m256) -> __m512 {
    // SAFETY: the token proves the instructions.
    unsafe {
        let order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        _mm512_permutex2var_ps(_mm512_castps256_ps512(a), order, _mm512_castps256_ps512(b))
    }
}

/// Joins the dot products of two outputs in one vector: those of a group side by side, each the sum of two lanes.
#[inline(always)]
fn join(_: Avx512Vbmi, first: __m512i, second: __m512i) -> __m512i {
    // SAFETY: the token proves the instructions.
    unsafe {
        let low = _mm512_mask_shuffle_epi32::<0xb1>(first, 0xaaaa, second);
        let high = _mm512_mask_shuffle_epi32::<0xb1>(second, 0x5555, first);
        _mm512_add_epi32(low, high)
    }
}

/// Returns the dot products of a super-block with rows, or of both halves of its groups, two lanes to a group.
///
/// # Safety
/// `rows` has the arranged super-block of `ROWS` rows, [`MAX_SUPER_BLOCKS`] apart.
#[inline(always)]
unsafe fn dots<F: SuperBlock, const ROWS: usize>(
    isa: Avx512Vbmi,
    block: F,
    rows: *const ArrangedRow,
) -> [[__m512i; 2]; ROWS] {
    // SAFETY: the token proves the instructions; `rows` has the super-block of `ROWS` rows, by this function's contract, and arrays of
    // `ArrangedRow` are aligned to 64 bytes.
    unsafe {
        let mut dots = [[_mm512_setzero_si512(); 2]; ROWS];
        for (row, dots) in dots.iter_mut().enumerate() {
            let arranged = rows.add(row * MAX_SUPER_BLOCKS);
            dots[0] = _mm512_load_si512((&raw const (*arranged).starts[0]).cast());
            if F::HALVES {
                dots[1] = _mm512_load_si512((&raw const (*arranged).starts[1]).cast());
            }
        }
        for part in 0..PARTS {
            let levels = block.levels(isa, part);
            let signs = if F::SIGNED { block.signs(isa, part) } else { 0 };
            let half = if F::HALVES { 2 * part / PARTS } else { 0 };
            for (row, dots) in dots.iter_mut().enumerate() {
                let arranged = rows.add(row * MAX_SUPER_BLOCKS);
                let mut x = _mm512_load_si512((&raw const (*arranged).parts[part]).cast());
                if F::SIGNED {
                    x = _mm512_mask_sub_epi8(x, signs, _mm512_setzero_si512(), x);
                }
                dots[half] = _mm512_dpbusd_epi32(dots[half], levels, x);
            }
        }
        dots
    }
}

/// Adds the products of a super-block of sixteen outputs, group by group, times the scales of activations.
///
/// # Safety
/// The products of all pairs were written, those of second halves [`PAIRS`] after the first; eight scales can be read.
#[inline(always)]
unsafe fn add<F: ScaledSuperBlock>(
    isa: Avx512Vbmi,
    mut sum: __m512,
    products: *const __m512,
    scales: *const f32,
) -> __m512 {
    // SAFETY: the token proves the instructions; products were written and scales can be read, by this function's contract.
    unsafe {
        let first = transpose(isa, &*products.cast());
        let second = if F::HALVES { transpose(isa, &*products.add(PAIRS).cast()) } else { first };
        for group in 0..GROUPS {
            let scale = _mm512_set1_ps(scales.add(group).read_unaligned());
            sum = _mm512_fmadd_ps(first[group], scale, sum);
            if F::HALVES {
                sum = _mm512_fmadd_ps(second[group], scale, sum);
            }
        }
        sum
    }
}

/// Transposes eight vectors of eight lanes of 64 bits.
#[inline(always)]
fn transpose(isa: Avx512Vbmi, from: &[__m512; GROUPS]) -> [__m512; GROUPS] {
    // SAFETY: the token proves the instructions.
    let (even, odd) = unsafe {
        let mut even = [_mm512_setzero_pd(); 4];
        let mut odd = [_mm512_setzero_pd(); 4];
        for i in 0..4 {
            let (a, b) = (_mm512_castps_pd(from[2 * i]), _mm512_castps_pd(from[2 * i + 1]));
            even[i] = _mm512_unpacklo_pd(a, b);
            odd[i] = _mm512_unpackhi_pd(a, b);
        }
        (even, odd)
    };
    let ([a, b, c, d], [e, f, g, h]) = (transpose_quarters(isa, even), transpose_quarters(isa, odd));
    [a, e, b, f, c, g, d, h]
}

/// Transposes four vectors of four lanes of 128 bits.
#[inline(always)]
fn transpose_quarters(_: Avx512Vbmi, [a, b, c, d]: [__m512d; 4]) -> [__m512; 4] {
    // SAFETY: the token proves the instructions.
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

/// Returns `N` bytes from byte `at` on. Offsets are constants inside blocks; zeros elsewhere.
#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).unwrap_or(const { &[0; N] })
}

/// Returns eight times the same byte.
const fn eight_times(byte: u64) -> i64 {
    (byte * 0x0101_0101_0101_0101) as i64
}

/// Returns bit `i` of byte `part` of every lane of 64 bits, for byte `i` of the lane.
#[inline(always)]
fn signs(_: Avx512Vbmi, bytes: __m512i, part: usize) -> __mmask64 {
    // SAFETY: the token proves the instructions.
    unsafe {
        let byte = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(eight_times(8 * part as u64)), bytes);
        _mm512_test_epi8_mask(byte, _mm512_set1_epi64(0x8040_2010_0804_0201u64 as i64))
    }
}

/// Returns, in four bytes of every lane of 64 bits, the seven bits from bit `first + i * step` on, and the eighth that makes their number
/// even.
#[inline(always)]
fn even_signs(_: Avx512Vbmi, words: __m512i, first: u64, step: u64) -> __m512i {
    let shifts = first | (first + step) << 8 | (first + 2 * step) << 16 | (first + 3 * step) << 24;
    // SAFETY: the token proves the instructions.
    unsafe {
        let seven = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), words);
        let seven = _mm512_and_si512(seven, _mm512_set1_epi8(0x7f));
        let eighth = _mm512_slli_epi16::<7>(_mm512_popcnt_epi8(seven));
        // The seven, or the highest bit of the eighth.
        _mm512_ternarylogic_epi64::<0xf8>(seven, eighth, _mm512_set1_epi8(-128))
    }
}

/// Returns an f16 as f32 in eight lanes.
#[inline(always)]
fn broadcast_f16(_: Avx512Vbmi, bits: u16) -> __m256 {
    // SAFETY: the token proves the instructions.
    unsafe { _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
}

/// Returns `(scale * factor) * (0.5 + numbers)`, as decoders have it.
#[inline(always)]
fn small_scales(_: Avx512Vbmi, scale: __m256, factor: f32, numbers: __m256i) -> __m256 {
    // SAFETY: the token proves the instructions.
    unsafe {
        let numbers = _mm256_add_ps(_mm256_set1_ps(0.5), _mm256_cvtepi32_ps(numbers));
        _mm256_mul_ps(_mm256_mul_ps(scale, _mm256_set1_ps(factor)), numbers)
    }
}
