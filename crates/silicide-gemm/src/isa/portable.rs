//! Plain Rust, which every CPU of the target runs: eight lanes.

use super::half::{narrow, widen, widen_eight};
use super::portable_lane::PortableLane;
use super::{CacheLine, DenseFloats, FloatLanes, IntLanes, Simd, Task, WordLanes};
use crate::prefetch::LINE;
use silicide_quant::f16;

/// The baseline of the target, which every CPU has.
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
    fn stream_line(self, from: &[u8; LINE], to: &mut CacheLine) {
        #[cfg(target_arch = "x86_64")]
        for part in 0..4 {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            let (from, to) = (from.as_ptr().cast::<__m128i>(), (&raw mut *to).cast::<__m128i>());
            // SAFETY: SSE2 is part of x86-64; both are 64 bytes, and `CacheLine` is aligned to them.
            unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            to.0 = *from;
        }
    }
}

/// Registers for vectors of eight lanes: two of the machine's own each.
pub(super) const EIGHT_LANE_REGISTERS: usize = if cfg!(target_arch = "aarch64") { 16 } else { 8 };

/// Implements [`FloatLanes`] for a token by eight lanes that the compiler vectorises.
macro_rules! eight_lanes {
    ($token:ident) => {
        impl FloatLanes for $token {
            type Floats = [f32; 8];
            type Halves = [u16; 8];
            const LANES: usize = 8;

            #[inline(always)]
            fn zeros(self) -> [f32; 8] {
                [0.0; 8]
            }

            #[inline(always)]
            fn broadcast(self, value: f32) -> [f32; 8] {
                [value; 8]
            }

            #[inline(always)]
            fn fma(self, a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
                // One instruction on every aarch64, a slow library call on the oldest x86-64.
                std::array::from_fn(|i| {
                    if cfg!(target_arch = "aarch64") { a[i].mul_add(b[i], c[i]) } else { a[i] * b[i] + c[i] }
                })
            }

            #[inline(always)]
            fn f16_floats(self, halves: [u16; 8]) -> [f32; 8] {
                widen_eight(halves)
            }

            #[inline(always)]
            fn bf16_floats(self, halves: [u16; 8]) -> [f32; 8] {
                halves.map(|half| f32::from_bits(u32::from(half) << 16))
            }
        }
    };
}
#[cfg(target_arch = "aarch64")]
pub(super) use eight_lanes;

eight_lanes!(Portable);

impl WordLanes for Portable {
    type Words = [u32; 8];

    #[inline(always)]
    unsafe fn load_transposed(self, from: *const u8, stride: usize) -> [[u32; 8]; 4] {
        let rows: [[u32; 4]; 8] = std::array::from_fn(|row| {
            // SAFETY: 16 bytes of each of eight rows can be read, by this function's contract.
            unsafe { from.add(row * stride).cast::<[u32; 4]>().read_unaligned() }
        });
        std::array::from_fn(|word| rows.map(|row| row[word]))
    }
}

/// Returns the first or the second 16 bits of words, in the order of memory.
#[inline(always)]
fn halves_of(words: [u32; 8], second: bool) -> [u16; 8] {
    words.map(|word| {
        let [a, b, c, d] = word.to_ne_bytes();
        u16::from_ne_bytes(if second { [c, d] } else { [a, b] })
    })
}

impl DenseFloats for Portable {
    const REGISTERS: usize = EIGHT_LANE_REGISTERS;

    #[inline(always)]
    fn f32_words(self, words: [u32; 8]) -> [f32; 8] {
        words.map(f32::from_bits)
    }

    #[inline(always)]
    fn f16_pairs(self, words: [u32; 8]) -> [[f32; 8]; 2] {
        [self.f16_floats(halves_of(words, false)), self.f16_floats(halves_of(words, true))]
    }

    #[inline(always)]
    fn bf16_pairs(self, words: [u32; 8]) -> [[f32; 8]; 2] {
        [self.bf16_floats(halves_of(words, false)), self.bf16_floats(halves_of(words, true))]
    }
}

impl IntLanes for Portable {
    type Unpacker = PortableLane;
    // Byte `i` of all lanes, then the next: products of a byte are one loop over lanes, which compilers vectorize.
    type Codes = [[u8; 8]; 4];
    type Sums = [i32; 8];
    const MR: usize = 2;
    const TILE_PER_LAYOUT: bool = false;
    const START: i32 = 0;
    const SIGNED: bool = false;
    const LANE_BYTES: usize = 1;

    #[inline(always)]
    fn unpacker(self) -> PortableLane {
        PortableLane
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> Self::Sums {
        [sum; 8]
    }

    #[inline(always)]
    fn dot(self, sums: Self::Sums, codes: Self::Codes, x: i32) -> Self::Sums {
        let x = x.to_ne_bytes().map(|byte| i16::from(byte as i8));
        // Codes below 128 are the same number, signed or not; no product of 8 bits exceeds 16.
        std::array::from_fn(|i| {
            let product = |j: usize| i32::from(i16::from(codes[j][i] as i8) * x[j]);
            sums[i].wrapping_add((product(0) + product(1)) + (product(2) + product(3)))
        })
    }

    #[inline(always)]
    fn scale_offset(self, scales: [f32; 8]) -> [f32; 8] {
        scales
    }

    #[inline(always)]
    fn scale(self, sums: Self::Sums, scales: [f32; 8], _: [f32; 8]) -> [f32; 8] {
        let floats = sums.map(|sum| sum as f32);
        self.fma(floats, scales, self.zeros())
    }
}
