//! Block formats: how weights are stored a block at a time. A format is a value ([`Format`]), and everything known about
//! it is one row of a table ([`FormatInfo`]).
//!
//! Families of formats live in their own files: `legacy`, `k`, `iq`, `iq4`, `ternary`, `fp4`. A block is a struct of bytes with a
//! decoder; those decoders are the definition of the formats.

pub(crate) mod block;
pub mod books;
mod decode_i8;
pub(crate) mod fp4;
pub(crate) mod iq;
pub(crate) mod iq4;
mod iq_grids;
pub(crate) mod k;
pub(crate) mod legacy;
mod table;
pub(crate) mod ternary;
mod wgsl;

use crate::simd::Isa;
use crate::{DType, MlxMode};
pub use decode_i8::DECODE_I8_LEN;
use std::fmt;
pub use table::FormatInfo;

/// Declares [`Format`], and counts its variants.
macro_rules! formats {
    ($($(#[$documentation:meta])* $name:ident,)*) => {
        /// A block format of GGML. Copies of the value are free; [`Format::info`] is its row in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Format {
            $($(#[$documentation])* $name,)*
        }

        /// The number of variants, which is that of the table's rows.
        const VARIANTS: usize = [$(Format::$name),*].len();
    };
}

formats! {
    /// 4-bit, one scale per 32.
    Q4_0,
    /// 4-bit, scale and minimum per 32.
    Q4_1,
    /// 5-bit, one scale per 32.
    Q5_0,
    /// 5-bit, scale and minimum per 32.
    Q5_1,
    /// 8-bit, one scale per 32.
    Q8_0,
    /// 8-bit with its sum, per 32; for activations.
    Q8_1,
    /// 2-bit, 256 elements in 16 sub-blocks with scale and minimum.
    Q2K,
    /// 3-bit, 256 elements in 16 sub-blocks.
    Q3K,
    /// 4-bit, 256 elements in 8 sub-blocks with scale and minimum.
    Q4K,
    /// 5-bit, 256 elements in 8 sub-blocks with scale and minimum.
    Q5K,
    /// 6-bit, 256 elements in 16 sub-blocks.
    Q6K,
    /// 8-bit with its sums, per 256; for activations.
    Q8K,
    /// 1.56 bits by code book.
    Iq1S,
    /// 1.75 bits by code book.
    Iq1M,
    /// 2.06 bits by code book.
    Iq2Xxs,
    /// 2.31 bits by code book.
    Iq2Xs,
    /// 2.56 bits by code book.
    Iq2S,
    /// 3.06 bits by code book.
    Iq3Xxs,
    /// 3.44 bits by code book.
    Iq3S,
    /// 4-bit with non-linear levels, one scale per 32.
    Iq4Nl,
    /// 4-bit with non-linear levels, 256 elements in 8 sub-blocks.
    Iq4Xs,
    /// Ternary, five to a byte, per 256.
    Tq1_0,
    /// Ternary in two bits, per 256.
    Tq2_0,
    /// 4-bit floats under a power of two per 32.
    Mxfp4,
    /// 4-bit floats under an 8-bit float per 16, blocks of 64.
    Nvfp4,
    /// Signs, one scale per 128.
    Q1_0,
    /// 2-bit, one scale per 64.
    Q2_0,
}

/// Why stored blocks and values could not be converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A number of elements that makes no whole number of blocks.
    #[error("{elements} elements are not a whole number of blocks of {block_len}")]
    PartialBlock {
        /// Elements given.
        elements: usize,
        /// Elements of a block.
        block_len: usize,
    },
    /// A number of bytes other than the elements take.
    #[error("{what}: {elements} elements take {expected} bytes, got {got}")]
    Length {
        /// The format or the plane of it.
        what: &'static str,
        /// Elements to convert.
        elements: usize,
        /// Bytes that they take.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// Settings that MLX does not have.
    #[error("MLX has no {mode} format of {bits} bits in groups of {group} under {scale} scales")]
    Mlx {
        /// The mode.
        mode: MlxMode,
        /// Bits asked for.
        bits: usize,
        /// Elements of a group.
        group: usize,
        /// The type of scales.
        scale: DType,
    },
}

impl Format {
    /// Every format, in declaration order.
    pub const ALL: [Format; table::COUNT] = table::ALL;

    /// Returns everything known about the format.
    pub const fn info(self) -> &'static FormatInfo {
        // In bounds: the table has a row for every variant, in order, which it checks when it is compiled.
        &table::FORMATS[self as usize]
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

    /// [`Format::decode`] with the code for a given instruction set. All give the same values.
    pub fn decode_with(self, isa: Isa, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
        self.check(out.len(), bytes.len())?;
        (self.info().decode)(isa, bytes, out);
        Ok(())
    }

    /// Encodes whole blocks with the fastest code that this machine runs. `out` must be exactly the blocks of `values`.
    /// What stands for values that are not finite is unspecified.
    pub fn encode(self, values: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
        self.encode_with(Isa::best_for_encoding(), values, out)
    }

    /// [`Format::encode`] with the code for a given instruction set. All give the same bytes.
    pub fn encode_with(self, isa: Isa, values: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
        self.check(values.len(), out.len())?;
        (self.info().encode)(isa, values, out);
        Ok(())
    }

    /// Decodes as many whole blocks as both slices have room for.
    pub(crate) fn decode_whole(self, bytes: &[u8], out: &mut [f32]) {
        (self.info().decode)(Isa::best(), bytes, out);
    }

    /// Encodes as many whole blocks as both slices have room for.
    pub(crate) fn encode_whole(self, values: &[f32], out: &mut [u8]) {
        (self.info().encode)(Isa::best_for_encoding(), values, out);
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
