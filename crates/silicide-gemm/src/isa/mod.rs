//! What differs between instruction sets, behind one trait: fused products, half floats, streamed stores. A kernel body generic over [`Simd`] and inlined in a
//! function with the right `#[target_feature]` compiles to that set's own instructions.

use silicide_quant::f16;

/// An instruction set level, as a type. Its functions may only run where the level is present.
pub trait Simd: Copy + 'static {
    /// Whether `a * b + c` is one instruction. Without it a fused product would be a slow call.
    const FUSED: bool;

    /// `a * b + c`, fused where that is one instruction.
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        if Self::FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    /// Converts as many elements as both slices have.
    ///
    /// # Safety
    /// The instruction set is present.
    unsafe fn widen_f16(from: &[f16], to: &mut [f32]);

    /// Converts as many elements as both slices have, to nearest even.
    ///
    /// # Safety
    /// The instruction set is present.
    unsafe fn narrow_f16(from: &[f32], to: &mut [f16]);

    /// Copies one line of 64 bytes, past the caches where the machine can.
    ///
    /// # Safety
    /// The instruction set is present, both pointers are good for 64 bytes, and `to` is aligned to them.
    unsafe fn stream_line(from: *const u8, to: *mut u8);
}

/// What every machine has.
#[derive(Clone, Copy)]
pub struct Portable;

impl Simd for Portable {
    const FUSED: bool = false;

    #[inline(always)]
    unsafe fn widen_f16(from: &[f16], to: &mut [f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    unsafe fn narrow_f16(from: &[f32], to: &mut [f16]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    unsafe fn stream_line(from: *const u8, to: *mut u8) {
        #[cfg(target_arch = "x86_64")]
        for part in 0..4 {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            // SAFETY: SSE2 is part of x86-64; the pointers are the caller's promise.
            unsafe {
                _mm_stream_si128(
                    to.cast::<__m128i>().add(part),
                    _mm_loadu_si128(from.cast::<__m128i>().add(part)),
                );
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, 64);
        }
    }
}

/// f16 bits to f32, without branches.
#[inline(always)]
fn widen(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let size = u32::from(bits & 0x7fff);
    // Moving the exponent by multiplication is exact and makes subnormals normal.
    let value = (f32::from_bits(size << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let value = if size >= 0x7c00 { value | 0x7f80_0000 } else { value };
    f32::from_bits(value | sign)
}

/// f32 to f16 bits, to nearest even, without branches.
#[inline(always)]
fn narrow(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let size = bits & 0x7fff_ffff;
    // Below the smallest normal half, adding 0.5 leaves the significand rounded to units of 2^-24 at the bottom.
    let small = (f32::from_bits(size) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let normal = (size.wrapping_add(0xfff + ((size >> 13) & 1)) >> 13).wrapping_sub(0x1_c000).min(0x7c00);
    let result = if size < 0x3880_0000 { small } else { normal };
    let result = if size > 0x7f80_0000 { 0x7e00 } else { result };
    (result | sign) as u16
}

/// x86-64 with AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    const FUSED: bool = true;

    #[inline(always)]
    unsafe fn widen_f16(from: &[f16], to: &mut [f32]) {
        use std::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: F16C is the caller's promise; both chunks hold 8 elements.
            unsafe {
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast())))
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = widen(from.to_bits());
        }
    }

    #[inline(always)]
    unsafe fn narrow_f16(from: &[f32], to: &mut [f16]) {
        use std::arch::x86_64::{
            _MM_FROUND_TO_NEAREST_INT, _mm_storeu_si128, _mm256_cvtps_ph, _mm256_loadu_ps,
        };
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(8), to.chunks_exact_mut(8));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: F16C is the caller's promise; both chunks hold 8 elements.
            unsafe {
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
                _mm_storeu_si128(to.as_mut_ptr().cast(), halves);
            }
        }
        for (to, from) in outputs.into_remainder().iter_mut().zip(inputs.remainder()) {
            *to = f16::from_bits(narrow(*from));
        }
    }

    #[inline(always)]
    unsafe fn stream_line(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
        let (from, to) = (from.cast::<__m256i>(), to.cast::<__m256i>());
        // SAFETY: the caller's promise.
        unsafe {
            _mm256_stream_si256(to, _mm256_loadu_si256(from));
            _mm256_stream_si256(to.add(1), _mm256_loadu_si256(from.add(1)));
        }
    }
}

/// x86-64 with AVX-512.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    const FUSED: bool = true;

    #[inline(always)]
    unsafe fn widen_f16(from: &[f16], to: &mut [f32]) {
        // SAFETY: AVX-512 includes F16C; 8 lanes at a time keep up with any memory.
        unsafe { Avx2::widen_f16(from, to) }
    }

    #[inline(always)]
    unsafe fn narrow_f16(from: &[f32], to: &mut [f16]) {
        // SAFETY: as above.
        unsafe { Avx2::narrow_f16(from, to) }
    }

    #[inline(always)]
    unsafe fn stream_line(from: *const u8, to: *mut u8) {
        use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())) }
    }
}

/// aarch64 with NEON.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy)]
pub struct Neon;

#[cfg(target_arch = "aarch64")]
impl Simd for Neon {
    const FUSED: bool = true;

    #[inline(always)]
    unsafe fn widen_f16(from: &[f16], to: &mut [f32]) {
        use std::arch::{aarch64::*, asm};
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
    unsafe fn narrow_f16(from: &[f32], to: &mut [f16]) {
        use std::arch::{aarch64::*, asm};
        let count = from.len().min(to.len());
        let (from, to) = (from.split_at(count).0, to.split_at_mut(count).0);
        let (mut inputs, mut outputs) = (from.chunks_exact(4), to.chunks_exact_mut(4));
        for (to, from) in (&mut outputs).zip(&mut inputs) {
            // SAFETY: as above.
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
    unsafe fn stream_line(from: *const u8, to: *mut u8) {
        // SAFETY: the portable code needs nothing.
        unsafe { Portable::stream_line(from, to) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Element;

    #[test]
    fn every_half_widens_and_returns() {
        for bits in 0..=u16::MAX {
            let wide = widen(bits);
            let expected = f16::from_bits(bits).to_f32();
            assert!(
                wide.to_bits() == expected.to_bits() || (wide.is_nan() && expected.is_nan()),
                "{bits:#x}"
            );
            assert!(narrow(wide) == bits || wide.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn narrowing_rounds_as_the_definition_does() {
        for step in 0..=u16::MAX {
            // Every upper half, with the lower bits that decide ties and their neighbours.
            for low in [0u32, 1, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fff, 0x8000, 0xffff] {
                let value = f32::from_bits(u32::from(step) << 16 | low);
                let expected = <f16 as Element>::from_f64(f64::from(value));
                let got = f16::from_bits(narrow(value));
                assert!(
                    got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                    "{value:e}"
                );
            }
        }
    }

    #[test]
    fn the_machine_converts_as_the_portable_code_does() {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            converts_as_the_portable_code_does::<Avx2>();
        }
        #[cfg(target_arch = "aarch64")]
        converts_as_the_portable_code_does::<Neon>();
        converts_as_the_portable_code_does::<Portable>();
    }

    /// The instruction set is present.
    fn converts_as_the_portable_code_does<S: Simd>() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut wide = vec![0.0; halves.len()];
        // SAFETY: the instruction set is the caller's promise.
        unsafe { S::widen_f16(halves.split_at(65_531).0, &mut wide) };
        for (half, wide) in halves.iter().zip(&wide).take(65_531) {
            let expected = widen(half.to_bits());
            assert!(expected.to_bits() == wide.to_bits() || (expected.is_nan() && wide.is_nan()));
        }
        let mut back = vec![f16::ZERO; halves.len()];
        // SAFETY: as above.
        unsafe { S::narrow_f16(&wide, &mut back) };
        for (half, back) in halves.iter().zip(&back).take(65_531) {
            assert!(half.to_bits() == back.to_bits() || (half.is_nan() && back.is_nan()));
        }
    }
}
