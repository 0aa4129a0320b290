//! Plain Rust, which every CPU of the target runs: eight lanes.

use super::half::{narrow, widen};
use super::{FloatLanes, IntLanes, Simd, Task};
use crate::f32::vector::Lanes8;
use silicide_quant::f16;

/// What every CPU of the target has.
#[derive(Clone, Copy, Debug)]
pub struct Portable(());

impl Simd for Portable {
    const FUSED: bool = false;
    const NAME: &'static str = "portable";

    fn detect() -> Option<Portable> {
        Some(Portable(()))
    }

    #[inline(always)]
    unsafe fn assume() -> Portable {
        Portable(())
    }

    // A function for each task, as for other instruction sets.
    #[inline(never)]
    fn run<T: Task>(self, task: T) -> T::Output {
        task.run()
    }

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    unsafe fn stream_line(self, from: *const u8, to: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        for part in 0..4 {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            // SAFETY: SSE2 is part of x86-64; the caller vouches for the memory and its alignment.
            unsafe {
                _mm_stream_si128(
                    to.cast::<__m128i>().add(part),
                    _mm_loadu_si128(from.cast::<__m128i>().add(part)),
                );
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller vouches for the memory.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, 64);
        }
    }
}

// SAFETY: operations of `Lanes8` are plain Rust.
unsafe impl FloatLanes for Portable {
    type Floats = Lanes8;
}

impl IntLanes for Portable {
    type Words = [[u8; 8]; 4];
    type Sums = [i32; 8];
    const ZERO: i32 = 0;
    const MR: usize = 2;
    const START: i32 = 0;
    const SIGNED: bool = false;
    const GEMV_STREAMS: usize = 0;
    const SIDE_BY_SIDE: bool = false;

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [Self::Words; 4] {
        let rows: [[u8; 16]; 8] = std::array::from_fn(|i| {
            // SAFETY: the caller vouches for sixteen bytes of each of eight rows.
            unsafe { from.add(i * stride).cast::<[u8; 16]>().read_unaligned() }
        });
        std::array::from_fn(|word| std::array::from_fn(|byte| rows.map(|row| row[4 * word + byte])))
    }

    #[inline(always)]
    unsafe fn load_adjacent(self, from: *const u8) -> Self::Words {
        // SAFETY: the caller vouches for four bytes of each of eight rows.
        let rows = unsafe { from.cast::<[[u8; 4]; 8]>().read_unaligned() };
        std::array::from_fn(|byte| rows.map(|row| row[byte]))
    }

    #[inline(always)]
    fn low_nibbles(self, words: Self::Words) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| byte & 15))
    }

    #[inline(always)]
    fn high_nibbles(self, words: Self::Words) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| byte >> 4))
    }

    #[inline(always)]
    fn center(self, words: Self::Words) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| byte ^ 128))
    }

    #[inline(always)]
    fn signed_codes(self, words: Self::Words) -> Self::Words {
        words
    }

    #[inline(always)]
    fn byte_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| (byte >> shift) & mask))
    }

    #[inline(always)]
    fn word_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        let mut fields = [[0; 8]; 4];
        for lane in 0..8 {
            let word = u32::from_le_bytes(words.map(|bytes| bytes[lane]));
            fields[0][lane] = (word >> shift) as u8 & mask;
        }
        fields
    }

    #[inline(always)]
    fn lookup(self, words: Self::Words, table: &[u8; 16]) -> Self::Words {
        words.map(|bytes| bytes.map(|byte| table[usize::from(byte & 15)]))
    }

    #[inline(always)]
    fn nibble_pairs(self, words: Self::Words) -> [Self::Words; 2] {
        let (low, high) =
            (words.map(|bytes| bytes.map(|byte| byte & 15)), words.map(|bytes| bytes.map(|byte| byte >> 4)));
        [[low[0], high[0], low[1], high[1]], [low[2], high[2], low[3], high[3]]]
    }

    #[inline(always)]
    fn spread_bits(self, words: Self::Words, shift: u32) -> Self::Words {
        std::array::from_fn(|i| {
            let bit = shift as usize + i;
            words[bit / 8 % 4].map(|byte| ((byte >> (bit % 8)) & 1) << 4)
        })
    }

    #[inline(always)]
    fn join<const SHIFT: u32>(self, words: Self::Words, upper: Self::Words) -> Self::Words {
        std::array::from_fn(|i| std::array::from_fn(|lane| words[i][lane] | upper[i][lane] << SHIFT))
    }

    #[inline(always)]
    fn to_floats(self, words: Self::Words, zero: i32) -> Lanes8 {
        let floats: [f32; 8] =
            std::array::from_fn(|lane| (i32::from_le_bytes(words.map(|bytes| bytes[lane])) - zero) as f32);
        Lanes8::new(floats)
    }

    #[inline(always)]
    fn signed_byte(self, words: Self::Words, shift: u32) -> Lanes8 {
        let floats = words[shift as usize / 8 % 4].map(|byte| f32::from(byte as i8));
        Lanes8::new(floats)
    }

    #[inline(always)]
    fn f16_in_word(self, words: Self::Words, shift: u32) -> Lanes8 {
        let at = shift as usize / 8 % 4;
        let halves: [u16; 8] =
            std::array::from_fn(|lane| u16::from_le_bytes([words[at][lane], words[(at + 1) % 4][lane]]));
        // SAFETY: eight f16s are a vector.
        unsafe { self.load_f16(halves.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_words(self, from: *const u8) -> Self::Words {
        // SAFETY: the caller vouches for the memory.
        unsafe { from.cast::<Self::Words>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store_words(self, words: Self::Words, to: *mut u8) {
        // SAFETY: the caller vouches for the memory.
        unsafe { to.cast::<Self::Words>().write_unaligned(words) }
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> Self::Sums {
        [sum; 8]
    }

    #[inline(always)]
    fn dot<const BYTES: bool>(self, sums: Self::Sums, codes: Self::Words, x: i32) -> Self::Sums {
        let x = x.to_ne_bytes().map(|byte| i16::from(byte as i8));
        // Codes below 128 are the same number, signed or not; no product of 8 bits exceeds 16.
        std::array::from_fn(|i| {
            let product = |j: usize| i32::from(i16::from(codes[j][i] as i8) * x[j]);
            sums[i].wrapping_add((product(0) + product(1)) + (product(2) + product(3)))
        })
    }

    #[inline(always)]
    fn scale_offset(self, scales: Lanes8) -> Lanes8 {
        scales
    }

    #[inline(always)]
    fn scale(self, sums: Self::Sums, scales: Lanes8, _: Lanes8) -> Lanes8 {
        let floats = sums.map(|sum| sum as f32);
        self.fma(Lanes8::new(floats), scales, self.zeros())
    }
}
