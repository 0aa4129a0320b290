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
use super::quantize::QuantizedGroups;
use super::weights::WeightEncoding;
use crate::isa::{Avx512, Avx512Vbmi, FloatLanes, IntLanes, Task, vbmi};
use crate::prefetch::LINE;
use iq1::{Iq1M, Iq1S};
use iq2::{Iq2S, Iq2Xs, Iq2Xxs};
use iq3::{Iq3S, Iq3Xxs};
use silicide_quant::Format;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, transmute};
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

/// 256 weights of a row in a format, in registers.
trait SuperBlock: Copy {
    /// Its bytes.
    const BYTES: usize;
    /// Whether halves of groups have scales of their own.
    const HALVES: bool;
    /// The offset from weights to levels.
    const ZERO: i32;
    /// Whether signs are stored apart from levels.
    const SIGNED: bool = false;

    /// Loads a super-block.
    fn load(isa: Avx512Vbmi, bytes: &[u8]) -> Self;
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
    fn scales(self, isa: Avx512Vbmi, bytes: &[u8], half: usize) -> __m256;
}

/// Implements [`SuperBlock`] and [`ScaledSuperBlock`] by functions of the type that are compiled for VBMI and BITALG: `from_bytes`,
/// `part_levels` and `group_scales`. Their bodies are safe, as intrinsics are there. `signs` names the field with signs, if there are any.
macro_rules! super_block {
    ($name:ident, bytes: $bytes:expr, halves: $halves:literal, zero: $zero:expr $(, signs: $signs:ident)?) => {
        impl SuperBlock for $name {
            const BYTES: usize = $bytes;
            const HALVES: bool = $halves;
            const ZERO: i32 = $zero;

            #[inline(always)]
            fn load(_: Avx512Vbmi, bytes: &[u8]) -> $name {
                // SAFETY: the token proves the features.
                unsafe { $name::from_bytes(array(bytes, 0)) }
            }

            #[inline(always)]
            fn levels(self, _: Avx512Vbmi, part: usize) -> __m512i {
                // SAFETY: the token proves the features.
                unsafe { self.part_levels(part) }
            }

            $(
                const SIGNED: bool = true;

                #[inline(always)]
                fn signs(self, _: Avx512Vbmi, part: usize) -> __mmask64 {
                    // SAFETY: the token proves the features.
                    unsafe { $crate::q8::codebook_gemv::signs(self.$signs, part) }
                }
            )?
        }

        impl ScaledSuperBlock for $name {
            #[inline(always)]
            fn scales(self, _: Avx512Vbmi, bytes: &[u8], half: usize) -> __m256 {
                // SAFETY: the token proves the features.
                unsafe { self.group_scales(array(bytes, 0), half) }
            }
        }
    };
}
use super_block;

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
        // SAFETY: `Q8Product::multiply` borrows the workspace alone, and this is the only use of it here.
        let arranged = unsafe { arrange::<F, ROWS>(product) };
        let scales: [&[[f32; GROUPS]]; ROWS] = std::array::from_fn(|row| {
            product.lhs.groups_of(row, 0..product.lhs.groups()).scales.as_chunks().0
        });
        let mut products = [[[isa.avx512().zeros(); PAIRS]; 2]; ROWS];
        for output in outputs.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (output + LANES).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let mut sums = [isa.avx512().zeros(); ROWS];
            for (block, arranged) in arranged.iter().enumerate() {
                let first = from.start.wrapping_add(block * F::BYTES);
                let next = after.wrapping_add(block * LANES * F::BYTES);
                for pair in 0..PAIRS {
                    // A part at a time: all of it at once would fill the queue to memory.
                    let lines = const { (LANES * F::BYTES).div_ceil(LINE).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.wrapping_add(2 * pair * from.stride);
                    // SAFETY: `Q8Product::multiply` says that LANES weight rows have these super-blocks, which nothing writes.
                    let [one, two] = unsafe {
                        [at, at.add(from.stride)].map(|at| std::slice::from_raw_parts(at, F::BYTES))
                    };
                    multiply_pair::<F, ROWS>(isa, [one, two], arranged, pair, &mut products);
                }
                for ((sum, products), scales) in sums.iter_mut().zip(&products).zip(scales) {
                    let Some(scales) = scales.get(block) else { continue };
                    *sum = add::<F>(isa, *sum, products, scales);
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

/// Arranges the activations of rows in the workspace, super-block by super-block. Rows that there are none of are the last one.
///
/// # Safety
/// Nothing else refers to the workspace of the product while the result is in use.
#[inline(always)]
unsafe fn arrange<'a, F: SuperBlock, const ROWS: usize>(
    product: &'a Q8Product<'_>,
) -> &'a [[ArrangedRow; ROWS]] {
    type Blocks<const ROWS: usize> = [MaybeUninit<[ArrangedRow; ROWS]>; MAX_SUPER_BLOCKS];
    // SAFETY: the workspace has room for it (`staging`), and nothing else refers to it, by this function's contract.
    let to = unsafe { &mut *product.staging::<Blocks<ROWS>>() };
    let to = to.get_mut(..product.lhs.groups() / GROUPS).unwrap_or_default();
    for (block, to) in to.iter_mut().enumerate() {
        let mut rows = [ArrangedRow { parts: [[0; GROUPS]; PARTS], starts: [[0; GROUPS]; 2] }; ROWS];
        for (row, arranged) in rows.iter_mut().enumerate() {
            let QuantizedGroups { codes, first, second, .. } =
                product.lhs.groups_of(row, block * GROUPS..(block + 1) * GROUPS);
            // Arrays, so that a super-block takes vector instructions: every tile arranges all of them.
            let (Some(codes), Some(first), Some(second)) = (
                codes.first_chunk::<GROUPS>(),
                first.first_chunk::<GROUPS>(),
                second.first_chunk::<GROUPS>(),
            ) else {
                continue;
            };
            for (i, part) in arranged.parts.iter_mut().enumerate() {
                for (part, codes) in part.iter_mut().zip(codes) {
                    *part = codes.as_chunks().0.get(i).map_or(0, |codes| u64::from_ne_bytes(*codes));
                }
            }
            // The other lane of a group starts from zero.
            let start = |sum: i32| u64::from(Avx512::START.wrapping_sub(F::ZERO.wrapping_mul(sum)) as u32);
            let [starts, others] = &mut arranged.starts;
            for ((start_of, other), (first, second)) in
                starts.iter_mut().zip(others).zip(first.iter().zip(second))
            {
                if F::HALVES {
                    (*start_of, *other) = (start(*first), start(*second));
                } else {
                    *start_of = start(first.wrapping_add(*second));
                }
            }
        }
        to.write(rows);
    }
    // SAFETY: every super-block was written above.
    unsafe { to.assume_init_ref() }
}

/// Writes the scaled dot products of a super-block of two outputs with rows: in `products`, vector `pair` of each row, and of each half of
/// groups, if these are apart. Those of group `i` are in lane `i` of 64 bits, the first output's first.
#[inline(always)]
fn multiply_pair<F: ScaledSuperBlock, const ROWS: usize>(
    isa: Avx512Vbmi,
    bytes: [&[u8]; 2],
    rows: &[ArrangedRow; ROWS],
    pair: usize,
    products: &mut [[[__m512; PAIRS]; 2]; ROWS],
) {
    let (one, two) = (F::load(isa, bytes[0]), F::load(isa, bytes[1]));
    let (first, second) = (dots::<F, ROWS>(isa, one, rows), dots::<F, ROWS>(isa, two, rows));
    for half in 0..1 + usize::from(F::HALVES) {
        let scales = isa.interleave(one.scales(isa, bytes[0], half), two.scales(isa, bytes[1], half));
        let offset = isa.avx512().scale_offset(scales);
        for (row, products) in products.iter_mut().enumerate() {
            let dots = isa.join(first[row][half], second[row][half]);
            products[half][pair] = isa.avx512().scale(dots, scales, offset);
        }
    }
}

/// Returns the dot products of a super-block with rows, or of both halves of its groups, two lanes to a group.
#[inline(always)]
fn dots<F: SuperBlock, const ROWS: usize>(
    isa: Avx512Vbmi,
    block: F,
    rows: &[ArrangedRow; ROWS],
) -> [[__m512i; 2]; ROWS] {
    let mut dots = [[isa.avx512().broadcast_sum(0); 2]; ROWS];
    for (dots, row) in dots.iter_mut().zip(rows) {
        dots[0] = lanes_64(&row.starts[0]);
        if F::HALVES {
            dots[1] = lanes_64(&row.starts[1]);
        }
    }
    for part in 0..PARTS {
        let levels = block.levels(isa, part);
        let signs = if F::SIGNED { block.signs(isa, part) } else { 0 };
        let half = if F::HALVES { 2 * part / PARTS } else { 0 };
        for (dots, row) in dots.iter_mut().zip(rows) {
            let mut x = lanes_64(&row.parts[part]);
            if F::SIGNED {
                x = isa.negate(x, signs);
            }
            dots[half] = isa.dot_bytes(dots[half], levels, x);
        }
    }
    dots
}

/// Adds the products of a super-block of sixteen outputs, group by group, times the scales of activations.
#[inline(always)]
fn add<F: SuperBlock>(
    isa: Avx512Vbmi,
    mut sum: __m512,
    products: &[[__m512; PAIRS]; 2],
    scales: &[f32; GROUPS],
) -> __m512 {
    let first = isa.transpose(&products[0]);
    let second = if F::HALVES { isa.transpose(&products[1]) } else { first };
    let isa = isa.avx512();
    for (group, scale) in scales.iter().enumerate() {
        let scale = isa.broadcast(*scale);
        sum = isa.fma(first[group], scale, sum);
        if F::HALVES {
            sum = isa.fma(second[group], scale, sum);
        }
    }
    sum
}

impl Avx512Vbmi {
    vbmi! {
        /// Interleaves two vectors of eight.
        fn interleave(self, a: __m256, b: __m256) -> __m512 {
            let order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            _mm512_permutex2var_ps(_mm512_castps256_ps512(a), order, _mm512_castps256_ps512(b))
        }

        /// Joins the dot products of two outputs in one vector: those of a group side by side, each the sum of two lanes.
        fn join(self, first: __m512i, second: __m512i) -> __m512i {
            let low = _mm512_mask_shuffle_epi32::<0xb1>(first, 0xaaaa, second);
            let high = _mm512_mask_shuffle_epi32::<0xb1>(second, 0x5555, first);
            _mm512_add_epi32(low, high)
        }

        /// Negates the bytes that `signs` has.
        fn negate(self, bytes: __m512i, signs: __mmask64) -> __m512i {
            _mm512_mask_sub_epi8(bytes, signs, _mm512_setzero_si512(), bytes)
        }

        /// Adds the products of each lane's four levels with four signed bytes.
        fn dot_bytes(self, sums: __m512i, levels: __m512i, x: __m512i) -> __m512i {
            _mm512_dpbusd_epi32(sums, levels, x)
        }

        /// Transposes eight vectors of eight lanes of 64 bits.
        fn transpose(self, from: &[__m512; GROUPS]) -> [__m512; GROUPS] {
            let mut even = [_mm512_setzero_pd(); 4];
            let mut odd = [_mm512_setzero_pd(); 4];
            for i in 0..4 {
                let (a, b) = (_mm512_castps_pd(from[2 * i]), _mm512_castps_pd(from[2 * i + 1]));
                even[i] = _mm512_unpacklo_pd(a, b);
                odd[i] = _mm512_unpackhi_pd(a, b);
            }
            let ([a, b, c, d], [e, f, g, h]) = (transpose_quarters(even), transpose_quarters(odd));
            [a, e, b, f, c, g, d, h]
        }
    }
}

/// Transposes four vectors of four lanes of 128 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_quarters([a, b, c, d]: [__m512d; 4]) -> [__m512; 4] {
    let (low_ab, high_ab) = (_mm512_shuffle_f64x2::<0x44>(a, b), _mm512_shuffle_f64x2::<0xee>(a, b));
    let (low_cd, high_cd) = (_mm512_shuffle_f64x2::<0x44>(c, d), _mm512_shuffle_f64x2::<0xee>(c, d));
    [
        _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(low_ab, low_cd)),
        _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(low_ab, low_cd)),
        _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(high_ab, high_cd)),
        _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(high_ab, high_cd)),
    ]
}

/// Returns words as the eight lanes of a vector.
#[inline(always)]
fn lanes_64(words: &[u64; 8]) -> __m512i {
    // SAFETY: any 64 bytes are a vector.
    unsafe { transmute::<[u64; 8], __m512i>(*words) }
}

/// Returns 64 bytes as a vector.
#[inline(always)]
fn bytes_64(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: any 64 bytes are a vector.
    unsafe { transmute::<[u8; 64], __m512i>(*bytes) }
}

/// Returns 32 bytes as a vector.
#[inline(always)]
fn bytes_32(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: any 32 bytes are a vector.
    unsafe { transmute::<[u8; 32], __m256i>(*bytes) }
}

/// Returns 16 bytes as a vector.
#[inline(always)]
fn bytes_16(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: any 16 bytes are a vector.
    unsafe { transmute::<[u8; 16], __m128i>(*bytes) }
}

/// Returns 8 bytes, each in a lane of 64 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn spread_bytes(bytes: &[u8; 8]) -> __m512i {
    _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*bytes)))
}

/// Looks words up in a book, one to a lane of 64 bits. Bits above the book's length are ignored.
#[inline]
#[target_feature(enable = "avx512f")]
fn look_up<const N: usize>(book: &'static [u64; N], words: __m512i) -> __m512i {
    const { assert!(N.is_power_of_two()) };
    let words = _mm512_and_si512(words, _mm512_set1_epi64(N as i64 - 1));
    // SAFETY: masked words are inside the book.
    unsafe { _mm512_i64gather_epi64::<8>(words, book.as_ptr().cast()) }
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
#[inline]
#[target_feature(enable = "avx512vbmi")]
fn signs(bytes: __m512i, part: usize) -> __mmask64 {
    let byte = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(eight_times(8 * part as u64)), bytes);
    _mm512_test_epi8_mask(byte, _mm512_set1_epi64(0x8040_2010_0804_0201u64 as i64))
}

/// Returns, in four bytes of every lane of 64 bits, the seven bits from bit `first + i * step` on, and the eighth that makes their number
/// even.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg")]
fn even_signs(words: __m512i, first: u64, step: u64) -> __m512i {
    let shifts = first | (first + step) << 8 | (first + 2 * step) << 16 | (first + 3 * step) << 24;
    let seven = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts as i64), words);
    let seven = _mm512_and_si512(seven, _mm512_set1_epi8(0x7f));
    let eighth = _mm512_slli_epi16::<7>(_mm512_popcnt_epi8(seven));
    // The seven, or the highest bit of the eighth.
    _mm512_ternarylogic_epi64::<0xf8>(seven, eighth, _mm512_set1_epi8(-128))
}

/// Returns an f16 as f32 in eight lanes.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn broadcast_f16(bits: u16) -> __m256 {
    _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// Returns `(scale * factor) * (0.5 + numbers)`, as decoders have it.
#[inline]
#[target_feature(enable = "avx2")]
fn small_scales(scale: __m256, factor: f32, numbers: __m256i) -> __m256 {
    let numbers = _mm256_add_ps(_mm256_set1_ps(0.5), _mm256_cvtepi32_ps(numbers));
    _mm256_mul_ps(_mm256_mul_ps(scale, _mm256_set1_ps(factor)), numbers)
}
