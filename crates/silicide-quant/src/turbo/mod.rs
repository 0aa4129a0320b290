//! TurboQuant: vectors of heads, rotated and quantized against one fixed codebook, for KV caches.
//!
//! ```text
//! encode: y = rotate(x)                              coordinates look normal
//!         for each block of at most 256 coordinates:
//!             rms = sqrt(mean(y * y))
//!             code[i] = nearest level to y[i] / rms
//!             scale = |y| / |level[code]|            so that lengths are exact
//! decode: x = unrotate(scale * level[code])
//! ```
//!
//! A head has a power of two of elements, 32 to 512. Its bytes are those of its blocks, one after the other: the scale as f16, then
//! planes of codes, low bits first. A plane of `b` bits has element `i` in the bits from `b * i` on, least significant first:
//!
//! ```text
//! tq2     scale | 2 bits of all
//! tq2.25  scale | 2 bits of all | bit 2 of the first quarter
//! tq3     scale | 2 bits of all | bit 2 of all
//! tq4     scale | 4 bits of all
//! tq5     scale | 4 bits of all | bit 4 of all
//! tq6     scale | 4 bits of all | bits 4 and 5 of all
//! tq8     scale | 8 bits of all
//! ```
//!
//! The rotation keeps products, so attention rotates a query once, reads keys and values as they are stored
//! ([`TurboCodec::decode_rotated`]), and un-rotates its output once. The bytes of a head are blocks of a [`TurboFormat`], an element type.
//! Neighbours: `rotation`, `codebook`, `format`.

mod codebook;
mod format;
mod rotation;

pub use codebook::{Codebook, lloyd_max};
pub use format::TurboFormat;
pub use rotation::{HEAD_LENGTHS, is_negative, is_rotated, rotate, unrotate};
use std::fmt;
use std::sync::LazyLock;

/// The most coordinates under one scale.
const MAX_BLOCK: usize = 256;
/// Bytes of a scale.
const SCALE_BYTES: usize = 2;

/// The codebooks of 2 to 8 bits, computed at the first use.
static CODEBOOKS: [LazyLock<Codebook>; 6] = [
    LazyLock::new(|| Codebook::of_bits(2)),
    LazyLock::new(|| Codebook::of_bits(3)),
    LazyLock::new(|| Codebook::of_bits(4)),
    LazyLock::new(|| Codebook::of_bits(5)),
    LazyLock::new(|| Codebook::of_bits(6)),
    LazyLock::new(|| Codebook::of_bits(8)),
];

/// How many bits a coordinate takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TurboBits {
    /// 2 bits.
    B2,
    /// 3 bits for the first quarter of a block, 2 for the rest.
    B2Quarter,
    /// 3 bits.
    B3,
    /// 4 bits.
    B4,
    /// 5 bits.
    B5,
    /// 6 bits.
    B6,
    /// 8 bits.
    B8,
}

impl TurboBits {
    /// Every number of bits, fewest first.
    pub const ALL: [TurboBits; 7] = [
        TurboBits::B2,
        TurboBits::B2Quarter,
        TurboBits::B3,
        TurboBits::B4,
        TurboBits::B5,
        TurboBits::B6,
        TurboBits::B8,
    ];

    /// Returns the name: `tq4`.
    pub const fn name(self) -> &'static str {
        match self {
            TurboBits::B2 => "tq2",
            TurboBits::B2Quarter => "tq2.25",
            TurboBits::B3 => "tq3",
            TurboBits::B4 => "tq4",
            TurboBits::B5 => "tq5",
            TurboBits::B6 => "tq6",
            TurboBits::B8 => "tq8",
        }
    }

    /// Returns the bits of a name.
    pub fn from_name(name: &str) -> Option<TurboBits> {
        TurboBits::ALL.into_iter().find(|bits| bits.name() == name)
    }

    /// Returns the bits of the low plane and of the high plane of codes, and the coordinates of `len` that have high bits.
    const fn planes(self, len: usize) -> (usize, usize, usize) {
        match self {
            TurboBits::B2 => (2, 0, 0),
            TurboBits::B2Quarter => (2, 1, len / 4),
            TurboBits::B3 => (2, 1, len),
            TurboBits::B4 => (4, 0, 0),
            TurboBits::B5 => (4, 1, len),
            TurboBits::B6 => (4, 2, len),
            TurboBits::B8 => (8, 0, 0),
        }
    }

    /// Returns the codebook of the first quarter of a block, and that of the rest. They differ for [`TurboBits::B2Quarter`] alone.
    pub fn levels(self) -> (&'static Codebook, &'static Codebook) {
        let (with, without) = match self {
            TurboBits::B2 => (0, 0),
            TurboBits::B2Quarter => (1, 0),
            TurboBits::B3 => (1, 1),
            TurboBits::B4 => (2, 2),
            TurboBits::B5 => (3, 3),
            TurboBits::B6 => (4, 4),
            TurboBits::B8 => (5, 5),
        };
        (&CODEBOOKS[with], &CODEBOOKS[without])
    }
}

impl fmt::Display for TurboBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a call of [`TurboCodec`] is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TurboError {
    /// A length of heads that has no codec.
    #[error("heads of {head_len} elements have no TurboQuant codec: a power of two from 32 to 512 is needed")]
    HeadLength {
        /// Elements of a head.
        head_len: usize,
    },
    /// A number of elements that is not a whole number of heads.
    #[error("{elements} elements are not a whole number of heads of {head_len}")]
    PartialHead {
        /// Elements given.
        elements: usize,
        /// Elements of a head.
        head_len: usize,
    },
    /// A number of bytes other than the elements take.
    #[error("{bits}: {elements} elements take {expected} bytes, got {got}")]
    Length {
        /// The bits of a coordinate.
        bits: TurboBits,
        /// Elements to convert.
        elements: usize,
        /// Bytes that they take.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
}

/// Encodes and decodes heads of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TurboCodec {
    bits: TurboBits,
    head_len: usize,
}

impl TurboCodec {
    /// A codec for heads of `head_len` elements, a power of two from 32 to 512.
    pub fn new(bits: TurboBits, head_len: usize) -> Result<TurboCodec, TurboError> {
        if !is_rotated(head_len) {
            return Err(TurboError::HeadLength { head_len });
        }
        Ok(TurboCodec { bits, head_len })
    }

    /// Returns the bits of a coordinate.
    pub fn bits(self) -> TurboBits {
        self.bits
    }

    /// Returns the elements of a head.
    pub fn head_len(self) -> usize {
        self.head_len
    }

    /// Returns the coordinates under one scale.
    pub fn block_len(self) -> usize {
        self.head_len.min(MAX_BLOCK)
    }

    /// Returns the bytes of a block.
    pub fn block_bytes(self) -> usize {
        self.format().block_bytes()
    }

    /// Returns the blocks of heads.
    pub fn format(self) -> TurboFormat {
        TurboFormat::of(self.bits, self.block_len())
    }

    /// Returns the bytes of a head.
    pub fn head_bytes(self) -> usize {
        self.head_len / self.block_len() * self.block_bytes()
    }

    /// Returns the mean squared error of a normal vector, relative to its mean square.
    ///
    /// The coordinates `x` of a block under its scale are those of a random point of the sphere of radius `sqrt(n)`. With `q` the level of
    /// a coordinate, the cosine between a block and its levels is `mean(x q) / sqrt(mean(q q))`, and exact lengths leave
    /// `2 - 2 * cosine`. Means over `n` coordinates vary: the expectation is taken to the second order.
    pub fn expected_error(self) -> f64 {
        let (first, rest) = self.bits.levels();
        let moments = first.moments(self.block_len()).mixed(0.25, rest.moments(self.block_len()));
        let [product, square, _] = moments.means;
        let (variance, covariance) = (moments.covariance(1, 1), moments.covariance(0, 1));
        let second_order = 0.375 * variance / (square * square) - 0.5 * covariance / (product * square);
        2.0 - 2.0 * product / square.sqrt() * (1.0 + second_order / self.block_len() as f64)
    }

    /// Rotates whole heads, as [`TurboCodec::encode`] does: for the queries of attention.
    pub fn rotate(self, heads: &mut [f32]) -> Result<(), TurboError> {
        self.check_heads(heads.len())?;
        heads.chunks_exact_mut(self.head_len).for_each(rotate);
        Ok(())
    }

    /// Reverses the rotation of whole heads: for the outputs of attention.
    pub fn unrotate(self, heads: &mut [f32]) -> Result<(), TurboError> {
        self.check_heads(heads.len())?;
        heads.chunks_exact_mut(self.head_len).for_each(unrotate);
        Ok(())
    }

    /// Encodes whole heads. `out` must have exactly their bytes. A head with an element that is not finite decodes to NaN.
    pub fn encode(self, heads: &[f32], out: &mut [u8]) -> Result<(), TurboError> {
        self.check(heads.len(), out.len())?;
        let mut rotated = [0.0; *HEAD_LENGTHS.end()];
        let rotated = &mut rotated[..self.head_len];
        for (head, out) in heads.chunks_exact(self.head_len).zip(out.chunks_exact_mut(self.head_bytes())) {
            rotated.copy_from_slice(head);
            rotate(rotated);
            self.format().encode_whole(rotated, out);
        }
        Ok(())
    }

    /// Decodes whole heads. `bytes` must be exactly those of `heads`.
    pub fn decode(self, bytes: &[u8], heads: &mut [f32]) -> Result<(), TurboError> {
        self.decode_rotated(bytes, heads)?;
        self.unrotate(heads)
    }

    /// Decodes whole heads and leaves them rotated.
    pub fn decode_rotated(self, bytes: &[u8], heads: &mut [f32]) -> Result<(), TurboError> {
        self.check(heads.len(), bytes.len())?;
        self.format().decode_whole(bytes, heads);
        Ok(())
    }

    fn check_heads(self, elements: usize) -> Result<(), TurboError> {
        match elements.is_multiple_of(self.head_len) {
            true => Ok(()),
            false => Err(TurboError::PartialHead { elements, head_len: self.head_len }),
        }
    }

    fn check(self, elements: usize, got: usize) -> Result<(), TurboError> {
        self.check_heads(elements)?;
        let expected = elements / self.head_len * self.head_bytes();
        match got == expected {
            true => Ok(()),
            false => Err(TurboError::Length { bits: self.bits, elements, expected, got }),
        }
    }
}

#[cfg(test)]
mod tests;
