//! Plain Rust, which every CPU of the target runs: eight lanes.

use super::half::{narrow, widen};
use super::portable_lane::PortableLane;
use super::{FloatLanes, IntLanes, Simd, Task, float_lanes};
use crate::f32::vector::{Lanes8, Vector};
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
    unsafe fn stream_line(self, from: *const u8, to: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        for part in 0..4 {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            // SAFETY: SSE2 is part of x86-64; 64 bytes can be read and written, and `to` is aligned to them, by this function's contract.
            unsafe {
                _mm_stream_si128(
                    to.cast::<__m128i>().add(part),
                    _mm_loadu_si128(from.cast::<__m128i>().add(part)),
                );
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: 64 bytes can be read and written, by this function's contract.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, 64);
        }
    }
}

float_lanes!(Portable, Lanes8);

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
    unsafe fn load_codes(self, from: *const u8) -> Self::Codes {
        // SAFETY: `4 * LANES` bytes can be read, by this function's contract.
        unsafe { from.cast::<Self::Codes>().read_unaligned() }
    }

    #[inline(always)]
    fn broadcast_sum(self, sum: i32) -> Self::Sums {
        [sum; 8]
    }

    #[inline(always)]
    fn dot<const BYTES: bool>(self, sums: Self::Sums, codes: Self::Codes, x: i32) -> Self::Sums {
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
