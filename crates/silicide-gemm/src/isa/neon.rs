//! NEON with dot products: eight lanes in two registers.

use super::half::{narrow, widen};
use super::{CodeLanes, FloatLanes, IntLanes, Portable, Simd, Task, float_lanes, run_with};
use crate::f32::vector::{Lanes8, Vector};
use silicide_quant::f16;
use std::arch::aarch64::*;
use std::arch::asm;

/// NEON with dot products.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

impl Simd for Neon {
    const FUSED: bool = true;
    const NAME: &'static str = "neon";

    fn detect() -> Option<Neon> {
        let has = std::arch::is_aarch64_feature_detected!("neon")
            && std::arch::is_aarch64_feature_detected!("dotprod");
        has.then_some(Neon(()))
    }

    #[inline(always)]
    unsafe fn assume() -> Neon {
        Neon(())
    }

    run_with!("neon,dotprod");

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(4), to.chunks_exact_mut(4));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: every aarch64 has the instruction; both chunks hold 4 elements.
            unsafe {
                let halves = vld1_u16(from.as_ptr().cast());
                let wide: float32x4_t;
                asm!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) wide, in(vreg) halves,
                    options(pure, nomem, nostack, preserves_flags));
                vst1q_f32(to.as_mut_ptr(), wide);
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(4), to.chunks_exact_mut(4));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: every aarch64 has the instruction; both chunks hold 4 elements.
            unsafe {
                let wide = vld1q_f32(from.as_ptr());
                let halves: uint16x4_t;
                asm!("fcvtn {0:v}.4h, {1:v}.4s", lateout(vreg) halves, in(vreg) wide,
                    options(pure, nomem, nostack, preserves_flags));
                vst1_u16(to.as_mut_ptr().cast(), halves);
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    unsafe fn stream_line(self, from: *const u8, to: *mut u8) {
        // SAFETY: every CPU runs the portable code; the contract is that of this function.
        unsafe { Portable::assume().stream_line(from, to) }
    }
}

impl Neon {
    /// Loads 16 bytes of each of four rows: word `i` has bytes `4i..4i + 4` of each.
    ///
    /// # Safety
    /// 16 bytes can be read at `from + row * stride` for each of the rows.
    #[inline(always)]
    unsafe fn transpose_four(self, from: *const u8, stride: usize) -> [uint8x16_t; 4] {
        // SAFETY: the token proves NEON; 16 bytes can be read at each of the rows, by this function's contract.
        unsafe {
            let row = |i: usize| vreinterpretq_u32_u8(vld1q_u8(from.add(i * stride)));
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let pairs =
                |a, b| (vreinterpretq_u64_u32(vtrn1q_u32(a, b)), vreinterpretq_u64_u32(vtrn2q_u32(a, b)));
            let ((even_ab, odd_ab), (even_cd, odd_cd)) = (pairs(a, b), pairs(c, d));
            [
                vreinterpretq_u8_u64(vtrn1q_u64(even_ab, even_cd)),
                vreinterpretq_u8_u64(vtrn1q_u64(odd_ab, odd_cd)),
                vreinterpretq_u8_u64(vtrn2q_u64(even_ab, even_cd)),
                vreinterpretq_u8_u64(vtrn2q_u64(odd_ab, odd_cd)),
            ]
        }
    }

    /// Adds the products of four signed bytes to each lane. The intrinsic is not stable.
    #[inline(always)]
    fn dot_four(self, mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        // SAFETY: the token proves the instruction, which touches these registers only.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
                inout(vreg) sums, in(vreg) a, in(vreg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sums
    }

    /// Converts integers to f32.
    #[inline(always)]
    fn convert(self, numbers: [int32x4_t; 2]) -> Lanes8 {
        let mut floats = [0.0; 8];
        // SAFETY: the token proves NEON; eight f32s are two registers.
        unsafe {
            vst1q_f32(floats.as_mut_ptr(), vcvtq_f32_s32(numbers[0]));
            vst1q_f32(floats.as_mut_ptr().add(4), vcvtq_f32_s32(numbers[1]));
        }
        Lanes8::new(floats)
    }

    /// Shifts the words of lanes right by `by` bits.
    #[inline(always)]
    fn shift_right(self, bytes: uint8x16_t, by: u32) -> uint32x4_t {
        // SAFETY: the token proves NEON. A shift to the left by a negative number is one to the right.
        unsafe { vshlq_u32(vreinterpretq_u32_u8(bytes), vdupq_n_s32(-(by as i32))) }
    }
}

float_lanes!(Neon, Lanes8);

impl CodeLanes for Neon {
    type Words = [uint8x16_t; 2];
    // The instruction takes signed codes, and those below 128 are the same number either way.
    const ZERO: i32 = 0;

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [Self::Words; 4] {
        // SAFETY: the token proves NEON; 16 bytes of each of eight rows can be read, by this function's contract.
        let (low, high) =
            unsafe { (self.transpose_four(from, stride), self.transpose_four(from.add(4 * stride), stride)) };
        std::array::from_fn(|i| [low[i], high[i]])
    }

    #[inline(always)]
    unsafe fn load_adjacent(self, from: *const u8) -> Self::Words {
        // SAFETY: the token proves NEON; 32 bytes can be read, by this function's contract.
        unsafe { [vld1q_u8(from), vld1q_u8(from.add(16))] }
    }

    #[inline(always)]
    fn low_nibbles(self, words: Self::Words) -> Self::Words {
        // SAFETY: the token proves NEON.
        words.map(|bytes| unsafe { vandq_u8(bytes, vdupq_n_u8(15)) })
    }

    #[inline(always)]
    fn high_nibbles(self, words: Self::Words) -> Self::Words {
        // SAFETY: the token proves NEON.
        words.map(|bytes| unsafe { vshrq_n_u8::<4>(bytes) })
    }

    #[inline(always)]
    fn center(self, words: Self::Words) -> Self::Words {
        // SAFETY: the token proves NEON.
        words.map(|bytes| unsafe { veorq_u8(bytes, vdupq_n_u8(128)) })
    }

    #[inline(always)]
    fn signed_codes(self, words: Self::Words) -> Self::Words {
        words
    }

    #[inline(always)]
    fn byte_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        // SAFETY: the token proves NEON. A shift to the left by a negative number is one to the right.
        words.map(|bytes| unsafe { vandq_u8(vshlq_u8(bytes, vdupq_n_s8(-(shift as i8))), vdupq_n_u8(mask)) })
    }

    #[inline(always)]
    fn word_bits(self, words: Self::Words, shift: u32, mask: u8) -> Self::Words {
        // SAFETY: the token proves NEON.
        words.map(|bytes| unsafe {
            vreinterpretq_u8_u32(vandq_u32(self.shift_right(bytes, shift), vdupq_n_u32(u32::from(mask))))
        })
    }

    #[inline(always)]
    fn lookup(self, words: Self::Words, table: &[u8; 16]) -> Self::Words {
        // SAFETY: the token proves NEON; the table has sixteen bytes.
        words.map(|bytes| unsafe { vqtbl1q_u8(vld1q_u8(table.as_ptr()), bytes) })
    }

    #[inline(always)]
    fn nibble_pairs(self, words: Self::Words) -> [Self::Words; 2] {
        // SAFETY: the token proves NEON.
        let halves = words.map(|bytes| unsafe {
            let (low, high) = (vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes));
            // Two words of each column, one after the other; then the first of each and the second of each.
            let (left, right) =
                (vreinterpretq_u32_u8(vzip1q_u8(low, high)), vreinterpretq_u32_u8(vzip2q_u8(low, high)));
            (vreinterpretq_u8_u32(vuzp1q_u32(left, right)), vreinterpretq_u8_u32(vuzp2q_u32(left, right)))
        });
        [halves.map(|(first, _)| first), halves.map(|(_, second)| second)]
    }

    #[inline(always)]
    fn spread_bits(self, words: Self::Words, shift: u32) -> Self::Words {
        // SAFETY: the token proves NEON.
        words.map(|bytes| unsafe {
            let bits = vandq_u32(self.shift_right(bytes, shift), vdupq_n_u32(15));
            // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
            let copies = vmulq_u32(bits, vdupq_n_u32(0x0204_0810));
            vandq_u8(vreinterpretq_u8_u32(copies), vdupq_n_u8(16))
        })
    }

    #[inline(always)]
    fn join<const SHIFT: u32>(self, words: Self::Words, upper: Self::Words) -> Self::Words {
        // SAFETY: the token proves NEON.
        std::array::from_fn(|i| unsafe { vorrq_u8(words[i], vshlq_u8(upper[i], vdupq_n_s8(SHIFT as i8))) })
    }

    #[inline(always)]
    fn to_floats(self, words: Self::Words, zero: i32) -> Lanes8 {
        // SAFETY: the token proves NEON.
        let less = |bytes| unsafe { vsubq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(zero)) };
        self.convert(words.map(less))
    }

    #[inline(always)]
    fn signed_byte(self, words: Self::Words, shift: u32) -> Lanes8 {
        // SAFETY: the token proves NEON.
        let byte = |bytes| unsafe {
            let top = vshlq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(24 - shift as i32));
            vshrq_n_s32::<24>(top)
        };
        self.convert(words.map(byte))
    }

    #[inline(always)]
    fn f16_in_word(self, words: Self::Words, shift: u32) -> Lanes8 {
        let mut halves = [0; 8];
        // SAFETY: the token proves NEON; eight f16s are two registers of half the size, and a vector.
        unsafe {
            // Narrowing keeps the lower half of each word.
            vst1_u16(halves.as_mut_ptr(), vmovn_u32(self.shift_right(words[0], shift)));
            vst1_u16(halves.as_mut_ptr().add(4), vmovn_u32(self.shift_right(words[1], shift)));
            self.load_f16(halves.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_adjacent(self, words: Self::Words, to: *mut u8) {
        // SAFETY: the token proves NEON; 32 bytes can be written, by this function's contract.
        unsafe {
            vst1q_u8(to, words[0]);
            vst1q_u8(to.add(16), words[1]);
        }
    }
}

impl IntLanes for Neon {
    type Unpacker = Neon;
    type Codes = [uint8x16_t; 2];
    type Sums = [int32x4_t; 2];
    // By two vectors of two registers: 12 sums in integers and 12 in floats, 4 registers of weights and 1 of
    // activations: 29 of 32.
    const MR: usize = 3;
    const START: i32 = 0;
    const SIGNED: bool = false;

    #[inline(always)]
    fn unpacker(self) -> Neon {
        self
    }

    #[inline(always)]
    unsafe fn load_codes(self, from: *const u8) -> Self::Codes {
        // SAFETY: the token proves NEON; 32 bytes can be read, by this function's contract.
        unsafe { [vld1q_u8(from), vld1q_u8(from.add(16))] }
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> Self::Sums {
        // SAFETY: the token proves NEON.
        [unsafe { vdupq_n_s32(sum) }; 2]
    }

    #[inline(always)]
    fn dot<const BYTES: bool>(self, sums: Self::Sums, codes: Self::Codes, x: i32) -> Self::Sums {
        // SAFETY: the token proves NEON.
        unsafe {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x));
            std::array::from_fn(|i| self.dot_four(sums[i], vreinterpretq_s8_u8(codes[i]), x))
        }
    }

    #[inline(always)]
    fn scale_offset(self, scales: Lanes8) -> Lanes8 {
        scales
    }

    #[inline(always)]
    fn scale(self, sums: Self::Sums, scales: Lanes8, _: Lanes8) -> Lanes8 {
        self.fma(self.convert(sums), scales, self.zeros())
    }
}
