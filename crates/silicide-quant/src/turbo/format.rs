//! The blocks of TurboQuant as element types ([`DType::Turbo`](crate::DType::Turbo)): coordinates that are rotated already, under one scale.
//! Rotation concerns whole heads, of one block or two, and is [`TurboCodec`](super::TurboCodec)'s.

use super::{Codebook, MAX_BLOCK, SCALE_BYTES, TurboBits, TurboCodec, TurboError};
use crate::simd::{Isa, TurboLayout};
use crate::{DType, FormatError};
use half::f16;
use std::fmt;

/// The logarithms of the lengths of blocks.
const LOGS: [u8; LENGTHS] = [5, 6, 7, 8];
/// How many lengths there are.
const LENGTHS: usize = 4;

/// A block: the bits of a coordinate, and how many coordinates share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurboFormat {
    bits: TurboBits,
    /// The logarithm of the length.
    log: u8,
}

/// The names of a number of bits, by length.
macro_rules! names {
    ($($bits:literal)*) => {
        [$([concat!($bits, "x32"), concat!($bits, "x64"), concat!($bits, "x128"), concat!($bits, "x256")]),*]
    };
}

static NAMES: [[&str; LENGTHS]; TurboBits::ALL.len()] = names!("tq2" "tq2.25" "tq3" "tq4" "tq5" "tq6" "tq8");

/// The texts of a number of bits, by length.
macro_rules! texts {
    ($($levels:literal $bytes:literal $low:literal $high:literal $with_high:literal;)*) => {
        [$([
            texts!(@ "32" $levels $bytes $low $high $with_high),
            texts!(@ "64" $levels $bytes $low $high $with_high),
            texts!(@ "128" $levels $bytes $low $high $with_high),
            texts!(@ "256" $levels $bytes $low $high $with_high),
        ]),*]
    };
    (@ $len:literal $levels:literal $bytes:literal $low:literal $high:literal $with_high:literal) => {
        concat!(
            "const LEN_$NAME: u32 = ", $len, "u;\n",
            "const BYTES_$NAME: u32 = 2u + LEN_$NAME * ", $bytes, "u / 32u;\n",
            "const LOW_$NAME: u32 = ", $low, "u;\n",
            "const HIGH_$NAME: u32 = ", $high, "u;\n",
            "const WITH_HIGH_$NAME: u32 = LEN_$NAME * ", $with_high, "u / 4u;\n",
            include_str!(concat!("wgsl/", $levels, ".wgsl")),
        )
    };
}

/// Constants of blocks in WGSL, and their levels: bytes of 32 coordinates, bits of the planes, quarters that have high bits.
static LEVELS_WGSL: [[&str; LENGTHS]; TurboBits::ALL.len()] = texts! {
    "levels_2" "8" "2" "0" "0";
    "levels_2_3" "9" "2" "1" "1";
    "levels_3" "12" "2" "1" "4";
    "levels_4" "16" "4" "0" "0";
    "levels_5" "20" "4" "1" "4";
    "levels_6" "24" "4" "2" "4";
    "levels_8" "32" "8" "0" "0";
};

impl TurboFormat {
    /// Every format, by bits, then by length.
    pub const ALL: [TurboFormat; TurboBits::ALL.len() * LENGTHS] = {
        let mut all = [TurboFormat { bits: TurboBits::B2, log: 5 }; TurboBits::ALL.len() * LENGTHS];
        let mut i = 0;
        while i < all.len() {
            all[i] = TurboFormat { bits: TurboBits::ALL[i / LENGTHS], log: LOGS[i % LENGTHS] };
            i += 1;
        }
        all
    };

    /// Returns the blocks of heads of `head_len` elements.
    pub fn for_head(bits: TurboBits, head_len: usize) -> Result<TurboFormat, TurboError> {
        Ok(TurboCodec::new(bits, head_len)?.format())
    }

    /// Returns the blocks of a length from 32 to 256, a power of two.
    pub(super) const fn of(bits: TurboBits, block_len: usize) -> TurboFormat {
        TurboFormat { bits, log: block_len.trailing_zeros() as u8 }
    }

    /// Returns the index in [`TurboFormat::ALL`].
    pub const fn number(self) -> usize {
        self.bits as usize * LENGTHS + self.length()
    }

    /// Returns the index of the length.
    const fn length(self) -> usize {
        (self.log - LOGS[0]) as usize
    }

    /// Returns the bits of a coordinate.
    pub const fn bits(self) -> TurboBits {
        self.bits
    }

    /// Returns the name: `tq4x64`, for 4 bits and 64 coordinates.
    pub const fn name(self) -> &'static str {
        NAMES[self.bits as usize][self.length()]
    }

    /// Returns the coordinates of a block.
    pub const fn block_len(self) -> usize {
        1 << self.log
    }

    /// Returns the bytes of a block.
    pub const fn block_bytes(self) -> usize {
        let (low, high, with_high) = self.bits.planes(self.block_len());
        SCALE_BYTES + (self.block_len() * low + with_high * high) / 8
    }

    /// Returns the alignment, in bytes, that a view must keep.
    pub const fn alignment(self) -> usize {
        if self.block_bytes().is_multiple_of(2) { 2 } else { 1 }
    }

    /// Returns the parts of the WGSL that decodes the format: `load_$NAME` and `eight_$NAME` of [`Format::wgsl`](crate::Format::wgsl).
    pub fn wgsl(self) -> [&'static str; 3] {
        [include_str!("../format/wgsl/bytes.wgsl"), self.wgsl_levels(), include_str!("wgsl/decode.wgsl")]
    }

    /// Returns the WGSL of its constants and levels: `LEN_$NAME`, `BYTES_$NAME`, `LOW_$NAME`, `HIGH_$NAME`, `WITH_HIGH_$NAME`, and
    /// `first_level_$NAME(code)` and `rest_level_$NAME(code)` of coordinates below `WITH_HIGH_$NAME` and of the others.
    pub const fn wgsl_levels(self) -> &'static str {
        LEVELS_WGSL[self.bits as usize][self.length()]
    }

    /// Decodes whole blocks with the fastest code that this machine runs. `bytes` must be exactly the blocks of `out`.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
        self.decode_with(Isa::best(), bytes, out)
    }

    /// [`TurboFormat::decode`] with the code for a given instruction set. All produce the same values.
    pub fn decode_with(self, isa: Isa, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
        self.check(out.len(), bytes.len())?;
        isa.decode_turbo(&self.layout(), bytes, out);
        Ok(())
    }

    /// Encodes whole blocks. `out` must be exactly the blocks of `values`. A block with an element that is not finite decodes to NaN.
    pub fn encode(self, values: &[f32], out: &mut [u8]) -> Result<(), FormatError> {
        self.check(values.len(), out.len())?;
        self.encode_whole(values, out);
        Ok(())
    }

    /// Decodes as many whole blocks as fit both slices.
    pub(crate) fn decode_whole(self, bytes: &[u8], out: &mut [f32]) {
        Isa::best().decode_turbo(&self.layout(), bytes, out);
    }

    /// Encodes as many whole blocks as fit both slices.
    pub(crate) fn encode_whole(self, values: &[f32], out: &mut [u8]) {
        for (block, out) in
            values.chunks_exact(self.block_len()).zip(out.chunks_exact_mut(self.block_bytes()))
        {
            self.encode_block(block, out);
        }
    }

    pub(crate) fn check(self, elements: usize, got: usize) -> Result<(), FormatError> {
        let block_len = self.block_len();
        if !elements.is_multiple_of(block_len) {
            return Err(FormatError::PartialBlock { elements, block_len });
        }
        let expected = elements / block_len * self.block_bytes();
        match got == expected {
            true => Ok(()),
            false => Err(FormatError::Length { what: self.name(), elements, expected, got }),
        }
    }

    fn layout(self) -> TurboLayout {
        let (low_bits, high_bits, with_high) = self.bits.planes(self.block_len());
        let (first, rest) = self.bits.levels();
        TurboLayout {
            len: self.block_len(),
            bytes: self.block_bytes(),
            low_bits,
            high_bits,
            with_high,
            first: first.levels(),
            rest: rest.levels(),
        }
    }

    fn encode_block(self, block: &[f32], out: &mut [u8]) {
        let mut codes = [0; MAX_BLOCK];
        let codes = &mut codes[..block.len()];
        let square: f64 = block.iter().map(|&y| f64::from(y) * f64::from(y)).sum();
        let factor = if square > 0.0 { (block.len() as f64 / square).sqrt() as f32 } else { 0.0 };
        let (low_bits, high_bits, with_high) = self.bits.planes(block.len());
        let (first, rest) = self.bits.levels();
        let mut level_square = 0.0;
        let mut quantize = |codebook: &Codebook, range: std::ops::Range<usize>| {
            for (&y, code) in block[range.clone()].iter().zip(&mut codes[range]) {
                *code = codebook.nearest(y * factor) as u8;
                let level = f64::from(codebook.levels()[usize::from(*code)]);
                level_square += level * level;
            }
        };
        quantize(first, 0..with_high);
        quantize(rest, with_high..block.len());
        let (scale, planes) = out.split_at_mut(SCALE_BYTES);
        let (low, high) = planes.split_at_mut(block.len() * low_bits / 8);
        pack(low, low_bits, 0, codes);
        if high_bits > 0 {
            pack(high, high_bits, low_bits, codes);
        }
        scale.copy_from_slice(&stored_scale((square / level_square).sqrt()).to_le_bytes());
    }
}

impl fmt::Display for TurboFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<TurboFormat> for DType {
    fn from(format: TurboFormat) -> DType {
        DType::Turbo(format)
    }
}

/// Returns a scale as it is stored. A finite one above the largest f16 is that f16.
fn stored_scale(scale: f64) -> f16 {
    if scale.is_finite() { f16::from_f64(scale.min(f64::from(f16::MAX))) } else { f16::NAN }
}

/// Packs `bits` bits of each code, from bit `shift` on, into a plane.
fn pack(plane: &mut [u8], bits: usize, shift: usize, codes: &[u8]) {
    let mask = (1u32 << bits) - 1;
    for (byte, codes) in plane.iter_mut().zip(codes.chunks(8 / bits)) {
        let part = |(i, code): (usize, &u8)| (u32::from(*code) >> shift & mask) << (i * bits);
        *byte = codes.iter().enumerate().map(part).fold(0, |byte, part| byte | part) as u8;
    }
}
