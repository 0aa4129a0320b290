//! Weights of MLX in integers: affine codes of 4 and 8 bits by shifts, of other sizes spelled. Few rows take another way for all but
//! 8 bits, where the instruction set moves bytes to any place at once.

use super::format::{Codes, LEN, Layout, Part, Place, Sink, Zero, bytes_of_run};
use super::legacy::MINIMUMS;
use super::product::Product;
use super::source::{Halves, Planes, Source, Strided};
use super::spelled;
use super::unit::Unit;
use crate::f32::vector::Vector;
use silicide_quant::{DType, Isa, MlxFormat};
use std::ops::Range;

/// 4-bit codes, two to a byte, the lower half first.
struct Affine4;
/// 8-bit codes.
struct Affine8;

/// What codes that are bytes unpack to.
const BYTES: Layout = Layout { zero: Zero::Bytes, halves: false, minimums: true };

// SAFETY: reads 16 bytes of a run.
unsafe impl Codes for Affine4 {
    const LAYOUT: Layout = MINIMUMS;
    const BLOCK: usize = LEN / 2;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let [a, b, c, d] = columns.words::<U, Self>(block, 0);
            let ([a, b], [c, d], [e, f], [g, h]) = (U::pairs(a), U::pairs(b), U::pairs(c), U::pairs(d));
            to.codes(0, &[a, b, c, d, e, f, g, h]);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scales_and_biases::<U, S>(columns, first, count, to) }
    }
}

// SAFETY: reads 32 bytes of a run.
unsafe impl Codes for Affine8 {
    const LAYOUT: Layout = BYTES;
    const BLOCK: usize = LEN;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(columns: S, block: usize, to: &mut impl Sink<U>) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut codes = bytes_of_run::<U, S, Self>(columns, block, 0);
            for codes in &mut codes {
                *codes = U::bytes(U::centred(*codes));
            }
            to.codes(0, &codes);
        }
    }

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe {
            scales_and_biases::<U, S>(columns, first, count, to);
            // Codes were centred by 128.
            let centre = U::Floats::splat(&128.0);
            for run in 0..count {
                let (scale, bias) = (U::Floats::load(to.scale(run, 0)), U::Floats::load(to.scale(run, 1)));
                scale.multiply_add(centre, bias).store(to.scale(run, 1));
            }
        }
    }
}

/// Unpacks the scales and biases of `count` runs from `first` on; both are whole groups.
#[inline(always)]
pub(super) unsafe fn scales_and_biases<U: Unit, S: Source>(
    columns: S,
    first: usize,
    count: usize,
    to: Place,
) {
    let Some(Planes { scales, biases, stride, runs, dtype }) = columns.planes() else { return };
    for (i, plane) in [scales, biases].into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let halves = Halves { start: plane.add(first / runs * 2), stride, bytes: 2, count: count / runs };
            match dtype {
                DType::F16 => halves.unpack::<U, false>(to, runs, i),
                DType::BF16 => halves.unpack::<U, true>(to, runs, i),
                _ => {
                    for (lane, run) in
                        (0..U::Floats::LANES).flat_map(|lane| (0..count).map(move |run| (lane, run)))
                    {
                        let at = plane.add(lane * stride + (first + run) / runs * 4);
                        // Scales may not be more precise than this; of biases it takes nothing that rounding leaves.
                        let bits = at.cast::<u32>().read_unaligned() & !3;
                        *to.scale(run, i).add(lane) = f32::from_bits(bits);
                    }
                }
            }
        }
    }
}

/// Unpacks a part of columns in a format.
unsafe fn unpack<U: Unit>(format: MlxFormat, part: &Part) {
    // SAFETY: the caller's promise.
    unsafe {
        match format.bits() {
            4 => U::unpack::<Affine4, Strided>(part),
            8 => U::unpack::<Affine8, Strided>(part),
            bits => {
                let isa = Isa::best();
                U::unpack::<Spelled, Strided>(part);
                spelled::spell::<U>(part, |lane, first, codes, _| {
                    let start = part.columns.start.add(lane * part.columns.stride + first * bits * (LEN / 8));
                    let packed = std::slice::from_raw_parts(start, codes.len() / 8 * bits);
                    // Lengths agree by construction, so this can't fail.
                    let _ = format.codes(isa, packed, bytemuck::cast_slice_mut(codes));
                });
            }
        }
    }
}

/// Only scales and biases: codes are spelled.
struct Spelled;

// SAFETY: reads scales and biases.
unsafe impl Codes for Spelled {
    const LAYOUT: Layout = BYTES;
    const BLOCK: usize = 0;
    const RUNS: usize = 1;
    const WORDS_AT: usize = 0;

    #[inline(always)]
    unsafe fn codes<U: Unit, S: Source>(_: S, _: usize, _: &mut impl Sink<U>) {}

    #[inline(always)]
    unsafe fn scales<U: Unit, S: Source>(columns: S, first: usize, count: usize, to: Place) {
        // SAFETY: the caller's promise.
        unsafe { scales_and_biases::<U, S>(columns, first, count, to) }
    }
}

/// Computes the outputs of some columns.
///
/// # Safety
///
/// As for [`Product::multiply`]; columns have planes.
#[inline(always)]
pub(super) unsafe fn multiply<U: Unit>(format: MlxFormat, product: &Product, columns: Range<usize>) {
    let layout = if format.bits() == 4 { Affine4::LAYOUT } else { BYTES };
    // SAFETY: the caller's promise.
    unsafe {
        if !U::look_up_affine(format.bits(), product, columns.clone()) {
            product.multiply::<U, MlxFormat>(columns, layout, unpack::<U>, format);
        }
    }
}
