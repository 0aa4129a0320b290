//! NEON with dot products: eight lanes in two registers.

use super::half::{narrow, widen, widen_eight};
use super::portable::{EIGHT_LANE_REGISTERS, eight_lanes};
use super::{CacheLine, CodeLanes, DenseFloats, FloatLanes, IntLanes, Simd, Task, WordLanes, with_features};
use crate::prefetch::LINE;
use silicide_quant::f16;
use std::arch::aarch64::*;
use std::arch::asm;
use std::mem::transmute;

/// NEON with dot products.
#[derive(Clone, Copy, Debug)]
pub struct Neon(());

/// Declares methods of [`Neon`] with what its `detect` looks for.
macro_rules! neon {
    ($($methods:tt)*) => {
        with_features!(Neon, "neon,dotprod", $($methods)*);
    };
}

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

    neon!(run);

    #[inline(always)]
    fn widen_f16(self, from: &[f16], to: &mut [f32]) {
        let count = from.len().min(to.len());
        let (from, from_rest) = from.split_at(count).0.as_chunks::<4>();
        let (to, to_rest) = to.split_at_mut(count).0.as_chunks_mut::<4>();
        for (to, from) in to.iter_mut().zip(from) {
            *to = widen_four(from.map(f16::to_bits));
        }
        for (to, from) in to_rest.iter_mut().zip(from_rest) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    fn narrow_f16(self, from: &[f32], to: &mut [f16]) {
        let count = from.len().min(to.len());
        let (from, from_rest) = from.split_at(count).0.as_chunks::<4>();
        let (to, to_rest) = to.split_at_mut(count).0.as_chunks_mut::<4>();
        for (to, from) in to.iter_mut().zip(from) {
            *to = narrow_four(*from).map(f16::from_bits);
        }
        for (to, from) in to_rest.iter_mut().zip(from_rest) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    fn stream_line(self, from: &[u8; LINE], to: &mut CacheLine) {
        to.0 = *from;
    }
}

/// Converts four f16s to f32.
#[inline(always)]
pub(super) fn widen_four(halves: [u16; 4]) -> [f32; 4] {
    let wide: float32x4_t;
    // SAFETY: every AArch64 CPU has the instruction, which touches these registers only; they have the bytes of the arrays.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", lateout(vreg) wide, in(vreg) transmute::<[u16; 4], uint16x4_t>(halves),
            options(pure, nomem, nostack, preserves_flags));
        transmute::<float32x4_t, [f32; 4]>(wide)
    }
}

/// Converts four f32s to f16, to nearest even.
#[inline(always)]
fn narrow_four(floats: [f32; 4]) -> [u16; 4] {
    let halves: uint16x4_t;
    // SAFETY: every AArch64 CPU has the instruction, which touches these registers only; they have the bytes of the arrays.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", lateout(vreg) halves, in(vreg) transmute::<[f32; 4], float32x4_t>(floats),
            options(pure, nomem, nostack, preserves_flags));
        transmute::<uint16x4_t, [u16; 4]>(halves)
    }
}

/// Adds the products of four signed bytes to each lane. The intrinsic is not stable.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot_four(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the function has the instruction's feature; the instruction touches these registers only.
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

/// Returns two registers as lanes.
#[inline]
#[target_feature(enable = "neon")]
fn lanes(a: float32x4_t, b: float32x4_t) -> [f32; 8] {
    // SAFETY: two registers are eight f32s.
    unsafe { transmute::<[float32x4_t; 2], [f32; 8]>([a, b]) }
}

/// Converts integers to f32.
#[inline]
#[target_feature(enable = "neon")]
fn convert(a: int32x4_t, b: int32x4_t) -> [f32; 8] {
    lanes(vcvtq_f32_s32(a), vcvtq_f32_s32(b))
}

/// Shifts the words of lanes right by `by` bits: a shift to the left by a negative number.
#[inline]
#[target_feature(enable = "neon")]
fn shift_right(bytes: uint8x16_t, by: u32) -> uint32x4_t {
    vshlq_u32(vreinterpretq_u32_u8(bytes), vdupq_n_s32(-(by as i32)))
}

/// [`CodeLanes::word_bits`] of four lanes.
#[inline]
#[target_feature(enable = "neon")]
fn word_bits(bytes: uint8x16_t, shift: u32, mask: u8) -> uint8x16_t {
    vreinterpretq_u8_u32(vandq_u32(shift_right(bytes, shift), vdupq_n_u32(u32::from(mask))))
}

/// [`CodeLanes::spread_bits`] of four lanes.
#[inline]
#[target_feature(enable = "neon")]
fn spread_bits(bytes: uint8x16_t, shift: u32) -> uint8x16_t {
    let bits = vandq_u32(shift_right(bytes, shift), vdupq_n_u32(15));
    // Bit i goes to bits i + 4, i + 11, i + 18 and i + 25, of which only 8i + 4 is kept.
    let copies = vmulq_u32(bits, vdupq_n_u32(0x0204_0810));
    vandq_u8(vreinterpretq_u8_u32(copies), vdupq_n_u8(16))
}

/// [`CodeLanes::nibble_pairs`] of four lanes.
#[inline]
#[target_feature(enable = "neon")]
fn nibble_pairs(bytes: uint8x16_t) -> [uint8x16_t; 2] {
    let (low, high) = (vandq_u8(bytes, vdupq_n_u8(15)), vshrq_n_u8::<4>(bytes));
    // Two words of each column, one after the other; then the first of each and the second of each.
    let left = vreinterpretq_u32_u8(vzip1q_u8(low, high));
    let right = vreinterpretq_u32_u8(vzip2q_u8(low, high));
    [vreinterpretq_u8_u32(vuzp1q_u32(left, right)), vreinterpretq_u8_u32(vuzp2q_u32(left, right))]
}

/// The signed byte from bit `shift` on of every lane's word.
#[inline]
#[target_feature(enable = "neon")]
fn signed_byte(bytes: uint8x16_t, shift: u32) -> int32x4_t {
    vshrq_n_s32::<24>(vshlq_s32(vreinterpretq_s32_u8(bytes), vdupq_n_s32(24 - shift as i32)))
}

/// Transposes 4 x 4 words.
#[inline]
#[target_feature(enable = "neon")]
fn transpose_four(a: uint8x16_t, b: uint8x16_t, c: uint8x16_t, d: uint8x16_t) -> [uint8x16_t; 4] {
    let (a, b) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
    let (c, d) = (vreinterpretq_u32_u8(c), vreinterpretq_u32_u8(d));
    let (even_ab, odd_ab) =
        (vreinterpretq_u64_u32(vtrn1q_u32(a, b)), vreinterpretq_u64_u32(vtrn2q_u32(a, b)));
    let (even_cd, odd_cd) =
        (vreinterpretq_u64_u32(vtrn1q_u32(c, d)), vreinterpretq_u64_u32(vtrn2q_u32(c, d)));
    [
        vreinterpretq_u8_u64(vtrn1q_u64(even_ab, even_cd)),
        vreinterpretq_u8_u64(vtrn1q_u64(odd_ab, odd_cd)),
        vreinterpretq_u8_u64(vtrn2q_u64(even_ab, even_cd)),
        vreinterpretq_u8_u64(vtrn2q_u64(odd_ab, odd_cd)),
    ]
}

impl Neon {
    neon! {
        /// Transposes 4 x 4 words of each of two sets of rows.
        fn transpose_eight(self, low: [uint8x16_t; 4], high: [uint8x16_t; 4]) -> [[uint8x16_t; 2]; 4] {
            let [a, b, c, d] = transpose_four(low[0], low[1], low[2], low[3]);
            let [e, f, g, h] = transpose_four(high[0], high[1], high[2], high[3]);
            [[a, e], [b, f], [c, g], [d, h]]
        }

        /// Converts sums to f32.
        fn sum_floats(self, sums: [int32x4_t; 2]) -> [f32; 8] {
            convert(sums[0], sums[1])
        }
    }
}

eight_lanes!(Neon);

impl WordLanes for Neon {
    type Words = [uint8x16_t; 2];

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [Self::Words; 4] {
        // SAFETY: 16 bytes of each of eight rows can be read, by this function's contract.
        let row = |i: usize| unsafe { from.add(i * stride).cast::<uint8x16_t>().read_unaligned() };
        self.transpose_eight([row(0), row(1), row(2), row(3)], [row(4), row(5), row(6), row(7)])
    }
}

impl DenseFloats for Neon {
    const REGISTERS: usize = EIGHT_LANE_REGISTERS;

    neon! {
        fn f32_words(self, words: [uint8x16_t; 2]) -> [f32; 8] {
            lanes(vreinterpretq_f32_u8(words[0]), vreinterpretq_f32_u8(words[1]))
        }

        fn bf16_pairs(self, words: [uint8x16_t; 2]) -> [[f32; 8]; 2] {
            let [a, b] = [vreinterpretq_u32_u8(words[0]), vreinterpretq_u32_u8(words[1])];
            let upper = vdupq_n_u32(0xffff_0000);
            let (first_a, first_b) = (vshlq_n_u32::<16>(a), vshlq_n_u32::<16>(b));
            let (second_a, second_b) = (vandq_u32(a, upper), vandq_u32(b, upper));
            [
                lanes(vreinterpretq_f32_u32(first_a), vreinterpretq_f32_u32(first_b)),
                lanes(vreinterpretq_f32_u32(second_a), vreinterpretq_f32_u32(second_b)),
            ]
        }
    }

    #[inline(always)]
    fn f16_pairs(self, words: [uint8x16_t; 2]) -> [[f32; 8]; 2] {
        [self.f16_in_word(words, 0), self.f16_in_word(words, 16)]
    }
}

impl CodeLanes for Neon {
    // The instruction takes signed codes, and those below 128 are the same number either way.
    const ZERO: i32 = 0;

    #[inline(always)]
    fn run_task<T: Task>(self, task: T) -> T::Output {
        self.run(task)
    }

    #[inline(always)]
    fn signed_codes(self, words: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
        words
    }

    neon! {
        fn low_nibbles(self, words: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
            let mask = vdupq_n_u8(15);
            [vandq_u8(words[0], mask), vandq_u8(words[1], mask)]
        }

        fn high_nibbles(self, words: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
            [vshrq_n_u8::<4>(words[0]), vshrq_n_u8::<4>(words[1])]
        }

        fn center(self, words: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
            let sign = vdupq_n_u8(128);
            [veorq_u8(words[0], sign), veorq_u8(words[1], sign)]
        }

        fn byte_bits(self, words: [uint8x16_t; 2], shift: u32, mask: u8) -> [uint8x16_t; 2] {
            // A shift to the left by a negative number is one to the right.
            let (shift, mask) = (vdupq_n_s8(-(shift as i8)), vdupq_n_u8(mask));
            [vandq_u8(vshlq_u8(words[0], shift), mask), vandq_u8(vshlq_u8(words[1], shift), mask)]
        }

        fn word_bits(self, words: [uint8x16_t; 2], shift: u32, mask: u8) -> [uint8x16_t; 2] {
            [word_bits(words[0], shift, mask), word_bits(words[1], shift, mask)]
        }

        fn lookup(self, words: [uint8x16_t; 2], table: &[u8; 16]) -> [uint8x16_t; 2] {
            // SAFETY: the table has the bytes of a register.
            let table = unsafe { transmute::<[u8; 16], uint8x16_t>(*table) };
            [vqtbl1q_u8(table, words[0]), vqtbl1q_u8(table, words[1])]
        }

        fn nibble_pairs(self, words: [uint8x16_t; 2]) -> [[uint8x16_t; 2]; 2] {
            let ([a, b], [c, d]) = (nibble_pairs(words[0]), nibble_pairs(words[1]));
            [[a, c], [b, d]]
        }

        fn spread_bits(self, words: [uint8x16_t; 2], shift: u32) -> [uint8x16_t; 2] {
            [spread_bits(words[0], shift), spread_bits(words[1], shift)]
        }

        fn join<const SHIFT: u32>(self, words: [uint8x16_t; 2], upper: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
            let shift = vdupq_n_s8(SHIFT as i8);
            [vorrq_u8(words[0], vshlq_u8(upper[0], shift)), vorrq_u8(words[1], vshlq_u8(upper[1], shift))]
        }

        fn to_floats(self, words: [uint8x16_t; 2], zero: i32) -> [f32; 8] {
            let zero = vdupq_n_s32(zero);
            let (a, b) = (vreinterpretq_s32_u8(words[0]), vreinterpretq_s32_u8(words[1]));
            convert(vsubq_s32(a, zero), vsubq_s32(b, zero))
        }

        fn signed_byte(self, words: [uint8x16_t; 2], shift: u32) -> [f32; 8] {
            convert(signed_byte(words[0], shift), signed_byte(words[1], shift))
        }

        fn f16_in_word(self, words: [uint8x16_t; 2], shift: u32) -> [f32; 8] {
            // Narrowing keeps the lower half of each word.
            let (a, b) = (vmovn_u32(shift_right(words[0], shift)), vmovn_u32(shift_right(words[1], shift)));
            // SAFETY: two registers of 64 bits are eight f16s.
            widen_eight(unsafe { transmute::<[uint16x4_t; 2], [u16; 8]>([a, b]) })
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

    neon! {
        fn broadcast_sum(self, sum: i32) -> [int32x4_t; 2] {
            [vdupq_n_s32(sum), vdupq_n_s32(sum)]
        }

        fn dot(self, sums: [int32x4_t; 2], codes: [uint8x16_t; 2], x: i32) -> [int32x4_t; 2] {
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x));
            let (a, b) = (vreinterpretq_s8_u8(codes[0]), vreinterpretq_s8_u8(codes[1]));
            [dot_four(sums[0], a, x), dot_four(sums[1], b, x)]
        }
    }

    #[inline(always)]
    fn scale_offset(self, scales: [f32; 8]) -> [f32; 8] {
        scales
    }

    #[inline(always)]
    fn scale(self, sums: Self::Sums, scales: [f32; 8], _: [f32; 8]) -> [f32; 8] {
        self.fma(self.sum_floats(sums), scales, self.zeros())
    }
}
