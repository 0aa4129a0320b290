//! Registers of f32 and their portable form; `x86.rs` has those with intrinsics.
//!
//! Kernels use them through the token of an instruction set ([`FloatLanes`](crate::isa::FloatLanes)), which proves it. Methods are
//! `#[inline(always)]`: code gets an instruction set by being inlined into a function that has it.

// Every aarch64 has an instruction that converts f16.
#[cfg(target_arch = "aarch64")]
use crate::isa::Neon as Halves;
#[cfg(not(target_arch = "aarch64"))]
use crate::isa::Portable as Halves;
use crate::isa::Simd;
use silicide_quant::f16;

/// A register of 32-bit words.
///
/// # Safety
///
/// Methods need the instruction set that the implementation is for. Pointers must be valid for what is read or
/// written, at any alignment.
pub(crate) unsafe trait Vector: Copy {
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
    /// Eight words from each of `LANES` rows that are `stride` words apart: vector `i` holds word `i` of each row.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; eight words of each row can be read.
    unsafe fn transpose_8(from: *const f32, stride: usize) -> [Self; 8];
    /// The same for f16, as f32.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; eight numbers of each row can be read.
    unsafe fn transpose_8_f16(from: *const u16, stride: usize) -> [Self; 8];
    /// The same for bf16, as f32.
    ///
    /// # Safety
    ///
    /// The CPU has the instruction set; eight numbers of each row can be read.
    unsafe fn transpose_8_bf16(from: *const u16, stride: usize) -> [Self; 8];
}

/// The most lanes of any vector.
pub(crate) const MAX_LANES: usize = 16;

/// Eight lanes as the compiler vectorises them: two registers of 128 bits.
#[derive(Clone, Copy)]
pub(crate) struct Lanes8([f32; 8]);

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
        // SAFETY: the caller vouches for the memory.
        Lanes8([unsafe { from.read_unaligned() }; 8])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for the memory.
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
        // SAFETY: the caller vouches for the memory.
        let halves = unsafe { from.cast::<[u16; 8]>().read_unaligned() };
        Lanes8(halves.map(|half| f32::from_bits(u32::from(half) << 16)))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the memory.
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
    unsafe fn transpose_8(from: *const f32, stride: usize) -> [Self; 8] {
        // SAFETY: each of eight rows has eight words, by the caller.
        transpose_square(|i| unsafe { Self::load(from.add(i * stride)) })
    }

    #[inline(always)]
    unsafe fn transpose_8_f16(from: *const u16, stride: usize) -> [Self; 8] {
        // SAFETY: each of eight rows has eight f16s, by the caller.
        transpose_square(|i| unsafe { Self::load_f16(from.add(i * stride)) })
    }

    #[inline(always)]
    unsafe fn transpose_8_bf16(from: *const u16, stride: usize) -> [Self; 8] {
        // SAFETY: each of eight rows has eight bf16s, by the caller.
        transpose_square(|i| unsafe { Self::load_bf16(from.add(i * stride)) })
    }
}

/// Transposes eight rows of eight words.
#[inline(always)]
fn transpose_square(row: impl Fn(usize) -> Lanes8) -> [Lanes8; 8] {
    let rows: [Lanes8; 8] = std::array::from_fn(row);
    std::array::from_fn(|i| Lanes8(rows.map(|row| row.0[i])))
}
