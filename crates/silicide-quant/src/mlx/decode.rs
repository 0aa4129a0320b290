//! Decoding of MLX groups: codes out of the bit stream, then scale and bias.

use super::{MlxFormat, MlxMode, MlxPlanes};
use crate::minifloat::{e2m1_doubled, e4m3, e8m0};
use crate::simd::{Isa, Task};
use crate::{DType, bf16, f16};

/// Decodes all groups of planes whose lengths were checked.
pub(super) fn run(format: MlxFormat, isa: Isa, planes: MlxPlanes<&[u8]>, out: &mut [f32]) {
    match (format.mode, format.bits) {
        (MlxMode::Affine, 2) => affine::<2>(format, isa, planes, out),
        (MlxMode::Affine, 3) => affine::<3>(format, isa, planes, out),
        (MlxMode::Affine, 4) => affine::<4>(format, isa, planes, out),
        (MlxMode::Affine, 5) => affine::<5>(format, isa, planes, out),
        (MlxMode::Affine, 6) => affine::<6>(format, isa, planes, out),
        (MlxMode::Affine, _) => affine::<8>(format, isa, planes, out),
        (MlxMode::Mxfp4, _) => isa.run(DecodeFloats::<4, _> { planes, out, group: 32, scale: e8m0 }),
        (MlxMode::Mxfp8, _) => isa.run(DecodeFloats::<8, _> { planes, out, group: 32, scale: e8m0 }),
        (MlxMode::Nvfp4, _) => isa.run(DecodeFloats::<4, _> { planes, out, group: 16, scale: e4m3 }),
    }
}

/// The group is known to the compiler: it would otherwise vectorise across four groups of 32, which is slow.
fn affine<const BITS: usize>(format: MlxFormat, isa: Isa, planes: MlxPlanes<&[u8]>, out: &mut [f32]) {
    let dtype = format.scale;
    match format.group {
        32 => isa.run(DecodeAffine::<BITS, 32> { planes, out, dtype }),
        64 => isa.run(DecodeAffine::<BITS, 64> { planes, out, dtype }),
        _ => isa.run(DecodeAffine::<BITS, 128> { planes, out, dtype }),
    }
}

struct DecodeAffine<'a, const BITS: usize, const GROUP: usize> {
    planes: MlxPlanes<&'a [u8]>,
    out: &'a mut [f32],
    dtype: DType,
}

impl<const BITS: usize, const GROUP: usize> Task for DecodeAffine<'_, BITS, GROUP> {
    #[inline(always)]
    fn run(self) {
        let MlxPlanes { packed, scales, biases } = self.planes;
        let size = self.dtype.size();
        let pairs = scales.chunks_exact(size).zip(biases.chunks_exact(size));
        let groups =
            self.out.as_chunks_mut::<GROUP>().0.iter_mut().zip(packed.chunks_exact(GROUP * BITS / 8));
        for ((out, packed), (scale, bias)) in groups.zip(pairs) {
            let (scale, bias) = (widen(self.dtype, scale), widen(self.dtype, bias));
            for (out, packed) in out.as_chunks_mut::<32>().0.iter_mut().zip(runs::<BITS>(packed)) {
                let codes = unpack::<BITS>(packed);
                for (value, code) in out.iter_mut().zip(codes) {
                    *value = scale * f32::from(code) + bias;
                }
            }
        }
    }
}

/// Takes codes apart whose lengths were checked.
pub(super) fn take_apart(format: MlxFormat, isa: Isa, packed: &[u8], codes: &mut [u8]) {
    match format.bits {
        2 => isa.run(Codes::<2> { packed, codes }),
        3 => isa.run(Codes::<3> { packed, codes }),
        4 => isa.run(Codes::<4> { packed, codes }),
        5 => isa.run(Codes::<5> { packed, codes }),
        6 => isa.run(Codes::<6> { packed, codes }),
        _ => isa.run(Codes::<8> { packed, codes }),
    }
}

struct Codes<'a, const BITS: usize> {
    packed: &'a [u8],
    codes: &'a mut [u8],
}

impl<const BITS: usize> Task for Codes<'_, BITS> {
    #[inline(always)]
    fn run(self) {
        for (codes, packed) in self.codes.as_chunks_mut::<32>().0.iter_mut().zip(runs::<BITS>(self.packed)) {
            *codes = unpack::<BITS>(packed);
        }
    }
}

struct DecodeFloats<'a, const BITS: usize, S> {
    planes: MlxPlanes<&'a [u8]>,
    out: &'a mut [f32],
    group: usize,
    scale: S,
}

impl<const BITS: usize, S: Fn(u8) -> f32> Task for DecodeFloats<'_, BITS, S> {
    #[inline(always)]
    fn run(self) {
        let groups = self.out.chunks_exact_mut(self.group);
        let packed = self.planes.packed.chunks_exact(self.group * BITS / 8);
        for ((out, packed), &scale) in groups.zip(packed).zip(self.planes.scales) {
            let scale = (self.scale)(scale);
            let runs = packed.chunks_exact(2 * BITS);
            for (out, packed) in out.as_chunks_mut::<16>().0.iter_mut().zip(runs) {
                let mut levels = [0.0; 16];
                if BITS == 8 {
                    for (level, &byte) in levels.iter_mut().zip(packed) {
                        *level = e4m3(byte);
                    }
                } else {
                    for (levels, &byte) in levels.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
                        *levels = [byte & 15, byte >> 4].map(|code| f32::from(e2m1_doubled(code)) * 0.5);
                    }
                }
                for (value, level) in out.iter_mut().zip(levels) {
                    *value = scale * level;
                }
            }
        }
    }
}

/// Runs of 32 codes: `4 * BITS` bytes each.
#[inline(always)]
fn runs<const BITS: usize>(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    packed.chunks_exact(4 * BITS)
}

/// 32 codes from `4 * BITS` bytes.
#[inline(always)]
fn unpack<const BITS: usize>(packed: &[u8]) -> [u8; 32] {
    let mask = ((1u16 << BITS) - 1) as u8;
    let mut codes = [0; 32];
    if BITS == 4 {
        // Most weights are these: two to a byte.
        for (codes, byte) in codes.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
            *codes = [byte & 15, byte >> 4];
        }
        return codes;
    }
    for (codes, bytes) in codes.as_chunks_mut::<8>().0.iter_mut().zip(packed.as_chunks::<BITS>().0) {
        // Eight codes are `BITS` whole bytes.
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes) {
            *to = *from;
        }
        let word = u64::from_le_bytes(word);
        for (i, code) in codes.iter_mut().enumerate() {
            *code = (word >> (BITS * i)) as u8 & mask;
        }
    }
    codes
}

/// Returns a stored scale or bias.
#[inline(always)]
fn widen(dtype: DType, bytes: &[u8]) -> f32 {
    match (dtype, bytes) {
        (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
        (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
        (_, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        // Scales have no other size.
        _ => 0.0,
    }
}
