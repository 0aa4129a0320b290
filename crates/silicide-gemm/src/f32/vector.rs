//! The few vector operations that the kernels of this op need, and their portable form.
//!
//! The kernels are written once over [`Vector`] and [`Unit`]; `x86.rs` has the implementations with intrinsics.
//! Methods are `#[inline(always)]`: code only gets an instruction set by being inlined into a function that has it.

use super::few::{self, Rows};
use super::pack::Weight;
use super::tile::{self, Block};
use super::weighted::{self, Weighted};
#[cfg(target_arch = "aarch64")]
use crate::isa::Neon;
use crate::isa::{Portable, Simd};
use silicide_quant::f16;

/// A register of 32-bit words.
///
/// # Safety
///
/// Methods need the instruction set that the implementation is for. Pointers must be valid for what is read or
/// written, at any alignment.
pub unsafe trait Vector: Copy {
    /// Words in a vector: a multiple of 4, at most [`MAX_LANES`].
    const LANES: usize;
    /// Such registers that the machine has.
    const REGISTERS: usize;

    /// All zero.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set.
    unsafe fn zero() -> Self;
    /// One word in all lanes.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the word can be read.
    unsafe fn splat(from: *const f32) -> Self;
    /// `LANES` words.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; `LANES` words can be read.
    unsafe fn load(from: *const f32) -> Self;
    /// `LANES` half-precision numbers, as f32.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; `LANES` numbers can be read.
    unsafe fn load_f16(from: *const u16) -> Self;
    /// `LANES` upper halves of f32, as f32.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; `LANES` numbers can be read.
    unsafe fn load_bf16(from: *const u16) -> Self;
    /// Writes `LANES` words.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; `LANES` words can be written.
    unsafe fn store(self, to: *mut f32);
    /// `self * other + sum`, in f32.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set.
    unsafe fn multiply_add(self, other: Self, sum: Self) -> Self;
    /// The sum of the lanes of each of four vectors, in a fixed order: for less than four, others stand in.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set.
    unsafe fn sums(of: [Self; 4]) -> [f32; 4];
    /// Four words from each of `LANES` rows that are `stride` words apart: vector `i` holds word `i` of each row.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; four words of each row can be read.
    unsafe fn transpose(from: *const f32, stride: usize) -> [Self; 4];
}

/// The most lanes of any vector.
pub const MAX_LANES: usize = 16;

/// An instruction set of [`crate::isa`] that multiplies f32. It owns the shape of the register tile.
///
/// # Safety
///
/// As for [`Vector`].
pub unsafe trait Unit {
    /// The registers.
    type Vector: Vector;
    /// Rows of the register tile, at most [`tile::MAX_ROWS`].
    const ROWS: usize;
    /// Vectors in a row of the register tile, at most [`tile::MAX_VECTORS`].
    const VECTORS: usize;

    /// [`tile::multiply`], compiled once for the instruction set: inside larger functions, registers run short.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the rest is that of [`tile::multiply`].
    unsafe fn multiply(block: &Block);
    /// Multiplies `ROWS` rows with all columns, likewise.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the rest is that of [`few::multiply`], and there are `ROWS` rows.
    unsafe fn few<W: Weight, const ROWS: usize>(part: &Rows<W::Stored>);
    /// Adds all rows to `SUMS` sums, likewise.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; the rest is that of [`weighted::add`], and there are `SUMS` sums.
    unsafe fn weighted<W: Weight, const SUMS: usize>(part: &Weighted<W::Stored>);
}

/// Every aarch64 has an instruction for halves.
#[cfg(target_arch = "aarch64")]
type Halves = Neon;
#[cfg(not(target_arch = "aarch64"))]
type Halves = Portable;

/// Eight lanes as the compiler vectorises them: two registers of 128 bits.
#[derive(Clone, Copy)]
pub struct Lanes8([f32; 8]);

impl Lanes8 {
    /// Returns a vector of these lanes.
    #[inline(always)]
    pub(crate) fn new(lanes: [f32; 8]) -> Lanes8 {
        Lanes8(lanes)
    }
}

// SAFETY: plain Rust, which every machine of the target runs.
unsafe impl Vector for Lanes8 {
    const LANES: usize = 8;
    // Two of the machine's own each.
    const REGISTERS: usize = if cfg!(target_arch = "aarch64") { 16 } else { 8 };

    #[inline(always)]
    unsafe fn zero() -> Self {
        Lanes8([0.0; 8])
    }

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Lanes8([unsafe { from.read_unaligned() }; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        Lanes8(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> Self {
        let mut wide = [0.0; 8];
        // SAFETY: the caller vouches for eight f16s; every CPU of the target has what `Halves` converts with.
        unsafe { Halves::assume().widen_f16(&from.cast::<[f16; 8]>().read_unaligned(), &mut wide) };
        Lanes8(wide)
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the caller's promise.
        let halves = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        Lanes8(halves.map(|half| f32::from_bits(u32::from(half) << 16)))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, sum: Self) -> Self {
        Lanes8(std::array::from_fn(|i| {
            let (a, b, sum) = (self.0[i], other.0[i], sum.0[i]);
            // One instruction on every aarch64, a slow library call on the oldest x86-64.
            if cfg!(target_arch = "aarch64") { a.mul_add(b, sum) } else { a * b + sum }
        }))
    }

    #[inline(always)]
    unsafe fn sums(of: [Self; 4]) -> [f32; 4] {
        of.map(|Lanes8([a, b, c, d, e, f, g, h])| ((a + e) + (c + g)) + ((b + f) + (d + h)))
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: usize) -> [Self; 4] {
        let rows: [[f32; 4]; 8] = std::array::from_fn(|i| {
            // SAFETY: the caller's promise covers four words in each of eight rows.
            unsafe { from.add(i * stride).cast::<[f32; 4]>().read_unaligned() }
        });
        std::array::from_fn(|i| Lanes8(rows.map(|row| row[i])))
    }
}

/// Declares the units that multiply f32 in [`Lanes8`].
macro_rules! unit {
    ($(#[$meta:meta])* $name:ident, $rows:literal x $vectors:literal) => {
        $(#[$meta])*
        // SAFETY: plain Rust, which every machine of the target runs.
        unsafe impl Unit for $name {
            type Vector = Lanes8;
            const ROWS: usize = $rows;
            const VECTORS: usize = $vectors;

            unsafe fn multiply(block: &Block) {
                // SAFETY: the caller's promise.
                unsafe { tile::multiply::<$name>(block) }
            }

            unsafe fn few<W: Weight, const ROWS: usize>(part: &Rows<W::Stored>) {
                // SAFETY: the caller's promise.
                unsafe { few::columns::<Lanes8, W, ROWS>(part) }
            }

            unsafe fn weighted<W: Weight, const SUMS: usize>(part: &Weighted<W::Stored>) {
                // SAFETY: the caller's promise.
                unsafe { weighted::columns::<Lanes8, W, SUMS>(part) }
            }
        }
    };
}

// Eight accumulators and two registers of weights, of the sixteen that SSE2 has.
unit!(Portable, 4 x 1);
// 24 accumulators and four registers of weights, of 32.
unit!(
    #[cfg(target_arch = "aarch64")]
    Neon,
    6 x 2
);
