//! Weighted sums of stored rows: values of attention, read once, in memory order, for all sums that want them.
//!
//! A sum adds one row after the other, so its bits do not depend on which other sums are made beside it, nor on how rows are
//! handed in.

use super::few::NEARER;
use super::pack::{Weight, load_part};
use super::vector::{Unit, Vector};
use crate::prefetch::{LINE, fetch};

/// Sums that share one pass over the rows.
const TOGETHER: usize = 4;

/// Some sums of rows.
#[derive(Clone, Copy)]
pub struct Weighted<T> {
    /// The first row; the others follow.
    pub rows: *const T,
    /// Elements of a row.
    pub dim: usize,
    /// Rows.
    pub count: usize,
    /// The weights of the first sum, one for each row.
    pub weights: *const f32,
    /// Weights from one sum to the next.
    pub stride: usize,
    /// The first sum.
    pub sums: *mut f32,
    /// Elements from one sum to the next: whole vectors, so that the last may be longer than a row.
    pub apart: usize,
    /// How many sums.
    pub wanted: usize,
    /// How many bytes ahead rows are asked for.
    pub ahead: Option<usize>,
}

/// Adds all rows to all sums.
///
/// # Safety
///
/// The unit's instruction set is present; rows, weights and sums have the given extents; nobody else touches the sums.
#[inline(always)]
pub unsafe fn add<U: Unit, W: Weight>(all: &Weighted<W::Stored>) {
    let mut sum = 0;
    while sum < all.wanted {
        let count = (all.wanted - sum).min(TOGETHER);
        // SAFETY: the sums are part of all.
        unsafe {
            let part = Weighted {
                weights: all.weights.add(sum * all.stride),
                sums: all.sums.add(sum * all.apart),
                ahead: all.ahead.filter(|_| sum == 0),
                ..*all
            };
            match count {
                1 => U::weighted::<W, 1>(&part),
                2 => U::weighted::<W, 2>(&part),
                3 => U::weighted::<W, 3>(&part),
                _ => U::weighted::<W, TOGETHER>(&part),
            }
        }
        sum += count;
    }
}

/// Adds all rows to `SUMS` sums.
///
/// # Safety
///
/// As for [`add`], and so many are wanted.
#[inline(always)]
pub(super) unsafe fn columns<V: Vector, W: Weight, const SUMS: usize>(all: &Weighted<W::Stored>) {
    // As many vectors beside each other as there are registers for sums.
    let most = if V::REGISTERS >= 32 { 4 } else { 2 };
    let mut column = 0;
    while column < all.dim {
        let left = all.dim - column;
        // SAFETY: the columns are part of all; the last vector of sums may be longer than they are, which is padding.
        unsafe {
            if left >= most * V::LANES {
                if most == 4 {
                    block::<V, W, SUMS, 4, true>(all, column);
                } else {
                    block::<V, W, SUMS, 2, true>(all, column);
                }
                column += most * V::LANES;
            } else {
                if left >= V::LANES {
                    block::<V, W, SUMS, 1, true>(all, column);
                } else {
                    block::<V, W, SUMS, 1, false>(all, column);
                }
                column += V::LANES;
            }
        }
    }
}

/// Some vectors of each sum, which are `WHOLE` or end in padding. The latter costs a way through memory, and room in registers
/// where it is only possible.
#[inline(always)]
unsafe fn block<V: Vector, W: Weight, const SUMS: usize, const VECTORS: usize, const WHOLE: bool>(
    all: &Weighted<W::Stored>,
    column: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let sums = all.sums.add(column);
        let mut totals = [[V::zero(); VECTORS]; SUMS];
        for (sum, totals) in totals.iter_mut().enumerate() {
            for (i, total) in totals.iter_mut().enumerate() {
                *total = V::load(sums.add(sum * all.apart + i * V::LANES));
            }
        }
        for row in 0..all.count {
            let from = all.rows.add(row * all.dim + column);
            if let Some(ahead) = all.ahead {
                let next = from.cast::<u8>().wrapping_add(ahead);
                for line in (0..VECTORS * V::LANES * size_of::<W::Stored>()).step_by(LINE) {
                    fetch::<false>(next.wrapping_add(line));
                    fetch::<true>(from.cast::<u8>().wrapping_add(NEARER + line));
                }
            }
            let mut values = [V::zero(); VECTORS];
            for (i, value) in values.iter_mut().enumerate() {
                let from = from.add(i * V::LANES);
                *value = if WHOLE { W::load::<V>(from) } else { load_part::<V, W>(from, all.dim - column) };
            }
            for (sum, totals) in totals.iter_mut().enumerate() {
                let weight = V::splat(all.weights.add(sum * all.stride + row));
                for (total, value) in totals.iter_mut().zip(values) {
                    *total = weight.multiply_add(value, *total);
                }
            }
        }
        for (sum, totals) in totals.into_iter().enumerate() {
            for (i, total) in totals.into_iter().enumerate() {
                total.store(sums.add(sum * all.apart + i * V::LANES));
            }
        }
    }
}
