//! Encoding of MLX groups: the scale and bias of least squared error, rounded as they are stored, then codes into the
//! bit stream.

use super::{MlxFormat, MlxMode, MlxPlanes};
use crate::format::fit::{each, error_of, extreme, fit_affine, inverse, nearest, sum};
use crate::format::fp4::{best_exponent, best_scale};
use crate::minifloat::{e4m3, e8m0, nearest_e2m1, nearest_ue4m3};
use crate::simd::{Isa, Task};
use crate::{DType, bf16, f16};

/// Encodes all groups of planes whose lengths were checked.
pub(super) fn run(format: MlxFormat, isa: Isa, values: &[f32], planes: MlxPlanes<&mut [u8]>) {
    match (format.mode, format.group) {
        (MlxMode::Affine, 32) => isa.run(EncodeAffine::<32> { format, values, planes }),
        (MlxMode::Affine, 64) => isa.run(EncodeAffine::<64> { format, values, planes }),
        (MlxMode::Affine, _) => isa.run(EncodeAffine::<128> { format, values, planes }),
        (MlxMode::Mxfp4, _) => isa.run(EncodeFloats::<32, 16, _> { values, planes, encode: encode_mxfp4 }),
        (MlxMode::Mxfp8, _) => isa.run(EncodeFloats::<32, 32, _> { values, planes, encode: encode_mxfp8 }),
        (MlxMode::Nvfp4, _) => isa.run(EncodeFloats::<16, 8, _> { values, planes, encode: encode_nvfp4 }),
    }
}

struct EncodeAffine<'a, const GROUP: usize> {
    format: MlxFormat,
    values: &'a [f32],
    planes: MlxPlanes<&'a mut [u8]>,
}

impl<const GROUP: usize> Task for EncodeAffine<'_, GROUP> {
    // Encoders reduce 16 or 32 values to one again and again, and lose on wider registers.
    const HAS_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let MlxFormat { bits, scale: dtype, .. } = self.format;
        let MlxPlanes { packed, scales, biases } = self.planes;
        let (bits, size) = (usize::from(bits), dtype.size());
        let pairs = scales.chunks_exact_mut(size).zip(biases.chunks_exact_mut(size));
        let groups = self.values.as_chunks::<GROUP>().0.iter().zip(packed.chunks_exact_mut(GROUP * bits / 8));
        for ((values, packed), (scale, bias)) in groups.zip(pairs) {
            let group = AffineGroup::new(values, ((1 << bits) - 1) as f32, dtype);
            store(dtype, group.scale, scale);
            store(dtype, group.bias, bias);
            pack(&group.codes, bits, packed);
        }
    }
}

/// A group with the scale and bias that it is stored with.
struct AffineGroup<const GROUP: usize> {
    scale: f32,
    bias: f32,
    codes: [f32; GROUP],
}

impl<const GROUP: usize> AffineGroup<GROUP> {
    #[inline(always)]
    fn new(values: &[f32; GROUP], top: f32, dtype: DType) -> AffineGroup<GROUP> {
        let fit = fit_affine::<GROUP, true>(values, top);
        let scale = rounded(dtype, fit.scale);
        let mut group = AffineGroup { scale, bias: rounded(dtype, -fit.min), codes: [0.0; GROUP] };
        // With its scale rounded, another bias may fit a group better: the mean of what is left.
        for _ in 0..2 {
            let (factor, bias) = (inverse(scale), group.bias);
            group.codes = each(values, |value| nearest(((value - bias) * factor).clamp(0.0, top)));
            let rest = sum::<GROUP>(|i| values[i] - scale * group.codes[i]) / GROUP as f32;
            let candidate = rounded(dtype, rest);
            let codes = each(values, |value| nearest(((value - candidate) * factor).clamp(0.0, top)));
            if error_of(values, &codes, scale, candidate) < error_of(values, &group.codes, scale, bias) {
                (group.bias, group.codes) = (candidate, codes);
            }
        }
        group
    }
}

/// Codes as a stream of bits, the first lowest.
#[inline(always)]
fn pack<const GROUP: usize>(codes: &[f32; GROUP], bits: usize, packed: &mut [u8]) {
    for (codes, bytes) in codes.as_chunks::<8>().0.iter().zip(packed.chunks_exact_mut(bits)) {
        let mut word = 0u64;
        for (i, code) in codes.iter().enumerate() {
            word |= u64::from(*code as u8) << (bits * i);
        }
        for (to, from) in bytes.iter_mut().zip(word.to_le_bytes()) {
            *to = from;
        }
    }
}

/// Returns the value as it will be read back.
#[inline(always)]
fn rounded(dtype: DType, value: f32) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value.clamp(-65_504.0, 65_504.0)).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

#[inline(always)]
fn store(dtype: DType, value: f32, out: &mut [u8]) {
    let (half, brain, single) =
        (f16::from_f32(value).to_le_bytes(), bf16::from_f32(value).to_le_bytes(), value.to_le_bytes());
    let bytes: &[u8] = match dtype {
        DType::F16 => &half,
        DType::BF16 => &brain,
        _ => &single,
    };
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// Encodes groups of `GROUP` elements to `BYTES` bytes. `encode` returns the scale and the codes of one group.
struct EncodeFloats<'a, const GROUP: usize, const BYTES: usize, F> {
    values: &'a [f32],
    planes: MlxPlanes<&'a mut [u8]>,
    encode: F,
}

impl<const GROUP: usize, const BYTES: usize, F> Task for EncodeFloats<'_, GROUP, BYTES, F>
where
    F: Fn(&[f32; GROUP]) -> (u8, [u8; BYTES]),
{
    // Encoders reduce 16 or 32 values to one again and again, and lose on wider registers.
    const HAS_AVX512: bool = false;

    #[inline(always)]
    fn run(self) {
        let groups = self.values.as_chunks::<GROUP>().0.iter();
        for ((values, packed), scale) in
            groups.zip(self.planes.packed.as_chunks_mut().0).zip(self.planes.scales)
        {
            (*scale, *packed) = (self.encode)(values);
        }
    }
}

#[inline(always)]
fn encode_mxfp4(values: &[f32; 32]) -> (u8, [u8; 16]) {
    let exponent = best_exponent(values);
    (exponent, pack_e2m1(values, e8m0(exponent)))
}

#[inline(always)]
fn encode_nvfp4(values: &[f32; 16]) -> (u8, [u8; 8]) {
    let scale = best_scale(values);
    (scale, pack_e2m1(values, e4m3(scale)))
}

/// Two neighbours to a byte.
#[inline(always)]
fn pack_e2m1<const N: usize, const HALF: usize>(values: &[f32; N], scale: f32) -> [u8; HALF] {
    let factor = 2.0 * inverse(scale);
    let codes = each(values, |value| nearest_e2m1(value * factor));
    let mut packed = [0; HALF];
    for (byte, pair) in packed.iter_mut().zip(codes.as_chunks::<2>().0) {
        *byte = pair[0] | pair[1] << 4;
    }
    packed
}

/// The least exponent under which nothing is clipped: E4M3 is nearly as fine for small values as for great ones.
#[inline(always)]
fn encode_mxfp8(values: &[f32; 32]) -> (u8, [u8; 32]) {
    let greatest = extreme(values).abs();
    let exponent = ((greatest / 448.0).to_bits().div_ceil(1 << 23)) as u8;
    let factor = inverse(e8m0(exponent));
    let codes = each(values, |value| nearest_ue4m3(value.abs() * factor) | u8::from(value < 0.0) << 7);
    (exponent, codes)
}
