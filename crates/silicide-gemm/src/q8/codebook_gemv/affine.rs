//! Affine codes of MLX of 2 to 6 bits. Eight codes are as many bytes as each has bits, so bytes are moved to their lanes and codes
//! shifted out there. Scales and biases lie in planes; they are unpacked as for panels, one output to a lane.

use super::{GROUPS, LANES, PAIRS, PARTS, SuperBlock, arrange, array, bytes_64, dots};
use crate::isa::{Avx512, Avx512Vbmi, DenseFloats, FloatLanes, IntLanes, Task, vbmi};
use crate::prefetch::LINE;
use crate::q8::GEMV_ROWS;
use crate::q8::formats::affine::AffineScales;
use crate::q8::formats::{ScaleSlots, prefetch};
use crate::q8::gemm::Q8Product;
use crate::q8::layout::{Strided, VectorRows};
use crate::q8::microkernel::store;
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
    const BYTES: usize = BYTES;
    const HALVES: bool = false;
    const ZERO: i32 = 0;

    #[inline(always)]
    fn load(isa: Avx512Vbmi, bytes: &[u8]) -> Self {
        const { assert!(BYTES == GROUPS * PARTS * BITS) };
        let bytes: &[u8; BYTES] = array(bytes, 0);
        let mut vectors = [isa.avx512().broadcast_sum(0); VECTORS];
        for (vector, bytes) in vectors.iter_mut().zip(bytes.chunks(VECTOR)) {
            *vector = match bytes.first_chunk() {
                Some(whole) => bytes_64(whole),
                None => isa.load_part(bytes),
            };
        }
        Affine(vectors)
    }

    #[inline(always)]
    fn levels(self, isa: Avx512Vbmi, part: usize) -> __m512i {
        let Places { bytes, vectors } = &Self::PLACES[part];
        let places = bytes_64(bytes);
        let mut codes = isa.permute(self.0[0], places);
        for (i, mask) in vectors.iter().enumerate().skip(1) {
            if i * VECTOR < BYTES {
                codes = isa.permute_part(codes, *mask, self.0[i], places);
            }
        }
        isa.byte_fields(codes, Self::SHIFTS, (1 << BITS) - 1)
    }
}

impl Avx512Vbmi {
    vbmi! {
        /// Loads up to 64 bytes; others are zero.
        fn load_part(self, bytes: &[u8]) -> __m512i {
            let mask = if bytes.len() < VECTOR { (1 << bytes.len()) - 1 } else { __mmask64::MAX };
            // SAFETY: the mask leaves out what is not in the slice.
            unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
        }

        /// Returns the bytes at `places` of a vector.
        fn permute(self, bytes: __m512i, places: __m512i) -> __m512i {
            _mm512_permutexvar_epi8(places, bytes)
        }

        /// Returns the bytes at `places` of a vector where `mask` has a bit, and those of `others` elsewhere.
        fn permute_part(self, others: __m512i, mask: __mmask64, bytes: __m512i, places: __m512i) -> __m512i {
            _mm512_mask_permutexvar_epi8(others, mask, places, bytes)
        }

        /// Returns, for every byte of a lane of 64 bits, the bits of `mask` from the bit on that its byte of `shifts` names.
        fn byte_fields(self, words: __m512i, shifts: i64, mask: i8) -> __m512i {
            let fields = _mm512_multishift_epi64_epi8(_mm512_set1_epi64(shifts), words);
            _mm512_and_si512(fields, _mm512_set1_epi8(mask))
        }

        /// Returns the bits of floats.
        fn float_bits(self, floats: __m512) -> __m512i {
            _mm512_castps_si512(floats)
        }
    }
}

/// Computes a GEMV of affine codes, if there is one for their bits, the rows are few and the CPU has the instructions; returns whether
/// it did.
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
        // SAFETY: `Q8Product::multiply` borrows the workspace alone, and this is the only use of it here.
        let arranged = unsafe { arrange::<Affine<BITS, BYTES>, ROWS>(product) };
        let rows: [RowScales<'_>; ROWS] = std::array::from_fn(|row| RowScales::new(product, row));
        let mut scales = Scales(MaybeUninit::uninit());
        // SAFETY: the array has two vectors for each of eight groups.
        let scales = unsafe { ScaleSlots::<Avx512>::new(scales.0.as_mut_ptr().cast(), GROUPS, 2) };
        let mut pairs = [[isa.avx512().zeros(); PAIRS]; ROWS];
        for output in outputs.clone().step_by(LANES) {
            // A vector that is not whole begins earlier.
            let skipped = (output + LANES).saturating_sub(outputs.end);
            let from = product.weights.skip(output - skipped);
            let after = from.start.wrapping_add(LANES * from.stride);
            let weights = VectorRows::<Avx512, Strided, AffineScales>::new(isa.avx512(), from);
            let mut sums = [isa.avx512().zeros(); ROWS];
            for (block, arranged) in arranged.iter().enumerate() {
                // SAFETY: `Q8Product::multiply` says that LANES weight rows have these groups, and planes their scales.
                unsafe { weights.blocks(block * GROUPS, GROUPS) }.plane_scales(scales);
                let first = from.start.wrapping_add(block * BYTES);
                let next = after.wrapping_add(block * LANES * BYTES);
                for pair in 0..PAIRS {
                    let lines = const { (LANES * BYTES).div_ceil(LINE).div_ceil(PAIRS) };
                    prefetch::<false>(next, pair * lines..(pair + 1) * lines);
                    let at = first.wrapping_add(2 * pair * from.stride);
                    // SAFETY: `Q8Product::multiply` says that LANES weight rows have these codes, which nothing writes.
                    let [one, two]: [&[u8; BYTES]; 2] =
                        unsafe { [&*at.cast(), &*at.add(from.stride).cast()] };
                    let one = dots(isa, Affine::<BITS, BYTES>::load(isa, one), arranged);
                    let two = dots(isa, Affine::<BITS, BYTES>::load(isa, two), arranged);
                    for (row, pairs) in pairs.iter_mut().enumerate() {
                        pairs[pair] = isa.avx512().f32_words(isa.join(one[row][0], two[row][0]));
                    }
                }
                for ((sum, pairs), row) in sums.iter_mut().zip(&pairs).zip(&rows) {
                    // SAFETY: the scales of this super-block were unpacked above.
                    *sum = unsafe { row.add(isa, block, *sum, pairs, scales) };
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

/// Scales of a row of activations and the sums of its codes, by super-block.
struct RowScales<'a> {
    scales: &'a [[f32; GROUPS]],
    /// The sums of first halves of groups, and of second halves.
    first: &'a [[i32; GROUPS]],
    second: &'a [[i32; GROUPS]],
}

impl<'a> RowScales<'a> {
    #[inline(always)]
    fn new(product: &Q8Product<'a>, row: usize) -> RowScales<'a> {
        let groups = product.lhs.groups_of(row, 0..product.lhs.groups());
        RowScales {
            scales: groups.scales.as_chunks().0,
            first: groups.first.as_chunks().0,
            second: groups.second.as_chunks().0,
        }
    }

    /// Adds the products of the groups of super-block `block`, and what biases make of the activations.
    ///
    /// # Safety
    /// The scales and biases of the groups were stored in `scales`.
    #[inline(always)]
    unsafe fn add(
        &self,
        isa: Avx512Vbmi,
        block: usize,
        mut sum: __m512,
        pairs: &[__m512; PAIRS],
        scales: ScaleSlots<Avx512>,
    ) -> __m512 {
        let (Some(x_scales), Some(first), Some(second)) =
            (self.scales.get(block), self.first.get(block), self.second.get(block))
        else {
            return sum;
        };
        let dots = isa.transpose(pairs);
        for group in 0..GROUPS {
            let (dots, isa) = (isa.float_bits(dots[group]), isa.avx512());
            let (x_scale, codes) = (x_scales[group], first[group].wrapping_add(second[group]));
            // SAFETY: the scales and biases of the groups were stored, by this function's contract.
            let (scale, bias) = unsafe { (scales.get(isa, group, 0), scales.get(isa, group, 1)) };
            let product = isa.scale(dots, scale, isa.scale_offset(scale));
            sum = isa.fma(product, isa.broadcast(x_scale), sum);
            sum = isa.fma(bias, isa.broadcast(x_scale * codes as f32), sum);
        }
        sum
    }
}
