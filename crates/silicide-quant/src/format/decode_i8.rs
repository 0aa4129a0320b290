//! Decodes blocks to i8 codes under scales, for integer arithmetic. A weight is exactly `code * scale`, with a scale per 16
//! weights.
//!
//! Formats whose codes are indices of code books, or digits, have such a decoder ([`Block::decode_i8`]), and so can any other
//! format without a minimum. `silicide-gemm` takes codes of other formats out by shifts.
//! Neighbours: the families of formats have the decoders; `simd` compiles them for every instruction set.

use super::block::{Block, whole_blocks};
use super::{Format, FormatError};
use crate::simd::{Isa, Task};
use std::marker::PhantomData;

/// Weights under one of the scales.
pub const DECODE_I8_LEN: usize = 16;

impl Format {
    /// Returns how many weights share a scale in [`Format::decode_i8`], 16 or 32; `None` if the format has no such decoder.
    pub const fn decode_i8_scale_len(self) -> Option<usize> {
        self.info().i8_scale_len
    }

    /// Decodes whole blocks to i8 codes. `bytes` must be exactly the blocks of `codes`, and `scales` has one for every
    /// [`DECODE_I8_LEN`] of them. A format without [`Format::decode_i8_scale_len`] leaves everything as it is.
    pub fn decode_i8(
        self,
        isa: Isa,
        bytes: &[u8],
        codes: &mut [i8],
        scales: &mut [f32],
    ) -> Result<(), FormatError> {
        self.check(codes.len(), bytes.len())?;
        let (elements, expected) = (codes.len(), codes.len() / DECODE_I8_LEN);
        if scales.len() != expected {
            return Err(FormatError::Length { what: self.name(), elements, expected, got: scales.len() });
        }
        (self.info().decode_i8)(isa, bytes, codes, scales);
        Ok(())
    }
}

/// Decodes as many whole blocks as fit all slices.
pub(super) fn decode_blocks<B: Block<LEN>, const LEN: usize>(
    isa: Isa,
    bytes: &[u8],
    codes: &mut [i8],
    scales: &mut [f32],
) {
    isa.run(DecodeI8Task::<B, LEN> { bytes, codes, scales, block: PhantomData });
}

struct DecodeI8Task<'a, B, const LEN: usize> {
    bytes: &'a [u8],
    codes: &'a mut [i8],
    scales: &'a mut [f32],
    block: PhantomData<B>,
}

impl<B: Block<LEN>, const LEN: usize> Task for DecodeI8Task<'_, B, LEN> {
    #[inline(always)]
    fn run(self) {
        let places = self
            .codes
            .as_chunks_mut::<LEN>()
            .0
            .iter_mut()
            .zip(self.scales.chunks_exact_mut(LEN / DECODE_I8_LEN));
        for (block, (codes, scales)) in whole_blocks::<B>(self.bytes).iter().zip(places) {
            block.decode_i8(codes, scales);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any bits: the products of codes and scales are what the decoder says, to the last bit or two.
    #[test]
    fn codes_times_scales_are_the_decoded_values() {
        for format in Format::ALL.into_iter().filter(|format| format.decode_i8_scale_len().is_some()) {
            let mut state = 1u64;
            let bytes: Vec<u8> = (0..40 * format.block_bytes())
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (state >> 56) as u8
                })
                .collect();
            let elements = 40 * format.block_len();
            let mut values = vec![0.0; elements];
            format.decode(&bytes, &mut values).unwrap();
            for isa in Isa::available() {
                let (mut codes, mut scales) = (vec![0; elements], vec![0.0; elements / DECODE_I8_LEN]);
                format.decode_i8(isa, &bytes, &mut codes, &mut scales).unwrap();
                for (i, value) in values.iter().enumerate() {
                    let product = f32::from(codes[i]) * scales[i / DECODE_I8_LEN];
                    let close = (product - value).abs() <= value.abs() * 1e-6;
                    assert!(close || !value.is_finite(), "{format} {isa} {i}: {product} for {value}");
                }
                let same = scales.as_chunks::<2>().0.iter().all(|[a, b]| a.to_bits() == b.to_bits());
                assert!(same || format.decode_i8_scale_len() == Some(16), "{format}");
            }
        }
    }

    #[test]
    fn lengths_are_checked() {
        let bytes = [0; 50];
        let decode = |codes: usize, scales: usize| {
            Format::Iq1S.decode_i8(Isa::PORTABLE, &bytes, &mut vec![0; codes], &mut vec![0.0; scales])
        };
        assert_eq!(decode(256, 16), Ok(()));
        assert!(decode(255, 16).is_err());
        assert!(decode(256, 15).is_err());
    }
}
