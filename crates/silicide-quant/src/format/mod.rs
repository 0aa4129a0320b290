//! Block formats: how weights are stored a block at a time. A format is a value ([`Format`]), and everything known about
//! it is one row of the table below ([`FormatInfo`]).
//!
//! A block is a struct of bytes with a decoder and an encoder (`block`); the decoders are the definition of the formats. Formats are
//! grouped in files by family:
//!
//! | file | formats |
//! |---|---|
//! | `legacy` | one scale per 32 elements |
//! | `k` | 256 elements in sub-blocks with small integer scales |
//! | `iq1`, `iq2`, `iq3` | code books, 256 elements; `iq` is what they share, `iq_search` the search of their encoders |
//! | `iq4` | 4-bit codes with non-linear levels |
//! | `ternary` | one and two bits under one scale |
//! | `fp4` | 4-bit floats |
//!
//! Encoders of the simple formats take their scale from the extremes of a block, as GGML does, with the same bytes. The others
//! search for the scales with the least squared error (`fit`). Decoders and encoders are compiled once per instruction set
//! (`simd`). Encoders add in a fixed order, so all instruction sets produce the same bytes.

pub(crate) mod block;
pub mod books;
mod decode_i8;
mod error;
pub(crate) mod fit;
pub(crate) mod fp4;
mod iq;
mod iq1;
mod iq2;
mod iq3;
mod iq4;
mod iq_grids;
mod iq_search;
mod k;
mod legacy;
mod table;
mod ternary;
mod wgsl;

use crate::simd::Isa;
pub use block::BlockMember;
pub use decode_i8::DECODE_I8_LEN;
pub use error::FormatError;
use std::fmt;
pub use table::FormatInfo;

// A row: name, type number of GGML, block, elements, bytes, alignment of GGML's struct in bytes, files of the WGSL decoder.
// A new format goes last: fuzz inputs select formats by position.
table::formats! {
    /// 4-bit, one scale per 32.
    Q4_0("q4_0", 2, legacy::Q4_0, 32, 18, 2, ["q4_0", "half_nibbles", "half_words", "factored"]),
    /// 4-bit, scale and minimum per 32.
    Q4_1("q4_1", 3, legacy::Q4_1, 32, 20, 2, ["q4_1", "factored"]),
    /// 5-bit, one scale per 32.
    Q5_0("q5_0", 6, legacy::Q5_0, 32, 22, 2, ["q5_0", "half_words", "factored"]),
    /// 5-bit, scale and minimum per 32.
    Q5_1("q5_1", 7, legacy::Q5_1, 32, 24, 2, ["q5_1", "factored"]),
    /// 8-bit, one scale per 32.
    Q8_0("q8_0", 8, legacy::Q8_0, 32, 34, 2, ["q8_0", "half_words", "factored"]),
    /// 8-bit with its sum, per 32; for activations.
    Q8_1("q8_1", 9, legacy::Q8_1, 32, 36, 2, ["q8_1", "eight_by_load", "sixteen_by_eight"]),
    /// 2-bit, 256 elements in 16 sub-blocks with scale and minimum.
    Q2K("q2_k", 10, k::Q2K, 256, 84, 2, ["q2_k", "factored"]),
    /// 3-bit, 256 elements in 16 sub-blocks.
    Q3K("q3_k", 11, k::Q3K, 256, 110, 2, ["q3_k", "half_words", "factored"]),
    /// 4-bit, 256 elements in 8 sub-blocks with scale and minimum.
    Q4K("q4_k", 12, k::Q4K, 256, 144, 2, ["k_scales", "q4_k", "factored"]),
    /// 5-bit, 256 elements in 8 sub-blocks with scale and minimum.
    Q5K("q5_k", 13, k::Q5K, 256, 176, 2, ["k_scales", "q5_k", "factored"]),
    /// 6-bit, 256 elements in 16 sub-blocks.
    Q6K("q6_k", 14, k::Q6K, 256, 210, 2, ["q6_k", "half_words", "factored"]),
    /// 8-bit with its sums, per 256; for activations.
    Q8K("q8_k", 15, k::Q8K, 256, 292, 4, ["q8_k", "eight_by_load", "sixteen_by_eight"]),
    /// 1.56 bits by code book.
    Iq1S("iq1_s", 19, iq1::Iq1S, 256, 50, 2, ["iq1_s", "eight_by_load", "sixteen_by_eight"]),
    /// 1.75 bits by code book.
    Iq1M("iq1_m", 29, iq1::Iq1M, 256, 56, 2, ["iq1_m", "eight_by_load", "sixteen_by_eight"]),
    /// 2.06 bits by code book.
    Iq2Xxs("iq2_xxs", 16, iq2::Iq2Xxs, 256, 66, 2, ["iq", "iq2_xxs", "eight_by_load", "sixteen_by_eight"]),
    /// 2.31 bits by code book.
    Iq2Xs("iq2_xs", 17, iq2::Iq2Xs, 256, 74, 2, ["iq", "iq2_xs", "eight_by_load", "sixteen_by_eight"]),
    /// 2.56 bits by code book.
    Iq2S("iq2_s", 22, iq2::Iq2S, 256, 82, 2, ["iq", "iq2_s", "eight_by_load", "sixteen_by_eight"]),
    /// 3.06 bits by code book.
    Iq3Xxs("iq3_xxs", 18, iq3::Iq3Xxs, 256, 98, 2, ["iq", "iq3_xxs", "eight_by_load", "sixteen_by_eight"]),
    /// 3.44 bits by code book.
    Iq3S("iq3_s", 21, iq3::Iq3S, 256, 110, 2, ["iq", "iq3_s", "eight_by_load", "sixteen_by_eight"]),
    /// 4-bit with non-linear levels, one scale per 32.
    Iq4Nl("iq4_nl", 20, iq4::Iq4Nl, 32, 18, 2, ["iq", "iq4_nl", "half_nibbles", "half_words", "spread_16", "code_book"]),
    /// 4-bit with non-linear levels, 256 elements in 8 sub-blocks.
    Iq4Xs("iq4_xs", 23, iq4::Iq4Xs, 256, 136, 2, ["iq", "iq4_xs", "spread_16", "code_book"]),
    /// Ternary, five to a byte, per 256.
    Tq1_0("tq1_0", 34, ternary::Tq1_0, 256, 54, 2, ["tq1_0", "eight_by_load", "sixteen_by_eight"]),
    /// Ternary in two bits, per 256.
    Tq2_0("tq2_0", 35, ternary::Tq2_0, 256, 66, 2, ["tq2_0", "eight_by_load", "sixteen_by_eight"]),
    /// 4-bit floats under a power of two per 32.
    Mxfp4("mxfp4", 39, fp4::Mxfp4, 32, 17, 1, ["fp4", "mxfp4", "spread_16", "code_book"]),
    /// 4-bit floats under an 8-bit float per 16, blocks of 64.
    Nvfp4("nvfp4", 40, fp4::Nvfp4, 64, 36, 1, ["fp4", "nvfp4", "eight_by_load", "sixteen_by_eight"]),
    /// Signs, one scale per 128.
    Q1_0("q1_0", 41, ternary::Q1_0, 128, 18, 2, ["q1_0", "eight_by_load", "sixteen_by_eight"]),
    /// 2-bit, one scale per 64.
    Q2_0("q2_0", 42, ternary::Q2_0, 64, 18, 2, ["q2_0", "eight_by_load", "sixteen_by_eight"]),
}

impl Format {
    /// Returns everything known about the format.
    pub const fn info(self) -> &'static FormatInfo {
        // In bounds: `formats!` makes a row of every variant, in the same order.
        &FORMATS[self as usize]
    }

    /// Returns the lower-case name: `q4_k`.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the format of a lower-case name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Returns the elements of a block.
    pub const fn block_len(self) -> usize {
        self.info().block_len
    }

    /// Returns the bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.info().block_bytes
    }

    /// Returns the bits that one element takes, scales included.
    pub fn bits_per_element(self) -> f64 {
        (self.block_bytes() * 8) as f64 / self.block_len() as f64
    }

    /// Decodes whole blocks with the fastest code that this machine runs. `bytes` must be exactly the blocks of `out`.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
        self.decode_with(Isa::best(), bytes, out)
    }

    /// [`Format::decode`] with the code for a given instruction set. All produce the same values.
    pub fn decode_with(self, isa: Isa, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
        self.check(out.len(), bytes.len())?;
        (self.info().decode)(isa, bytes, out);
        Ok(())
    }

    /// Encodes whole blocks with the fastest code that this machine runs. `out` must be exactly the blocks of `values`.
    /// What stands for values that are not finite is unspecified.
    pub fn encode(self, values: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
        self.encode_with(Isa::best(), values, out)
    }

    /// [`Format::encode`] with the code for a given instruction set. All produce the same bytes.
    pub fn encode_with(self, isa: Isa, values: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
        self.check(values.len(), out.len())?;
        (self.info().encode)(isa, values, out);
        Ok(())
    }

    /// Decodes as many whole blocks as fit both slices.
    pub(crate) fn decode_whole(self, bytes: &[u8], out: &mut [f32]) {
        (self.info().decode)(Isa::best(), bytes, out);
    }

    /// Encodes as many whole blocks as fit both slices.
    pub(crate) fn encode_whole(self, values: &[f32], out: &mut [u8]) {
        (self.info().encode)(Isa::best(), values, out);
    }

    /// Returns the bytes of `elements` elements; refuses a part of a block.
    pub fn bytes_of(self, elements: usize) -> Result<usize, FormatError> {
        let block_len = self.block_len();
        if !elements.is_multiple_of(block_len) {
            return Err(FormatError::PartialBlock { elements, block_len });
        }
        // No overflow: every format takes fewer bytes than two per element, and slices of f32 count in bytes.
        Ok((elements / block_len).saturating_mul(self.block_bytes()))
    }

    pub(crate) fn check(self, elements: usize, got: usize) -> Result<(), FormatError> {
        let expected = self.bytes_of(elements)?;
        if expected == got {
            return Ok(());
        }
        Err(FormatError::Length { what: self.name(), elements, expected, got })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for format in Format::ALL {
            assert_eq!(Format::from_name(format.name()), Some(format));
            assert_eq!(format.info().format, format);
        }
        assert_eq!(Format::from_name("q4_2"), None);
        assert_eq!(Format::Q6K.bits_per_element(), 6.5625);
    }

    #[test]
    fn refuses_other_lengths() {
        let mut out = [0.0; 64];
        assert_eq!(Format::Q4_0.decode(&[0; 36], &mut out), Ok(()));
        let expected = FormatError::Length { what: "q4_0", elements: 64, expected: 36, got: 35 };
        assert_eq!(Format::Q4_0.decode(&[0; 35], &mut out), Err(expected));
        let expected = FormatError::PartialBlock { elements: 33, block_len: 32 };
        assert_eq!(Format::Q4_0.decode(&[0; 36], &mut out[..33]), Err(expected));
        assert_eq!(Format::Q4_0.decode(&[], &mut []), Ok(()));
    }
}
