//! The table of formats: one row each, checked when it is compiled.

use super::block::{Encode, decode_blocks, encode_blocks};
use super::{Format, fp4, iq, iq4, k, legacy, ternary};
use crate::simd::Isa;

/// Everything known about a format.
#[derive(Debug)]
#[non_exhaustive]
pub struct FormatInfo {
    /// The format.
    pub format: Format,
    /// Lower-case name.
    pub name: &'static str,
    /// The type number in GGUF files.
    pub ggml_id: u32,
    /// Elements of a block.
    pub block_len: usize,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// The alignment, in bytes, of the widest number in a block.
    pub alignment: usize,
    /// Decodes whole blocks; the safe door is [`Format::decode`].
    pub(super) decode: fn(Isa, &[u8], &mut [f32]),
    /// Encodes whole blocks; the safe door is [`Format::encode`].
    pub(super) encode: fn(Isa, &[f32], &mut [u8]),
}

/// The number of formats.
pub(super) const COUNT: usize = ROWS.len();

/// One row per format, in the order of the variants.
const ROWS: &[FormatInfo] = &[
    row::<legacy::Q4_0, 32>(Format::Q4_0, "q4_0", 2, 18, 2),
    row::<legacy::Q4_1, 32>(Format::Q4_1, "q4_1", 3, 20, 2),
    row::<legacy::Q5_0, 32>(Format::Q5_0, "q5_0", 6, 22, 2),
    row::<legacy::Q5_1, 32>(Format::Q5_1, "q5_1", 7, 24, 2),
    row::<legacy::Q8_0, 32>(Format::Q8_0, "q8_0", 8, 34, 2),
    row::<legacy::Q8_1, 32>(Format::Q8_1, "q8_1", 9, 36, 2),
    row::<k::Q2K, 256>(Format::Q2K, "q2_k", 10, 84, 2),
    row::<k::Q3K, 256>(Format::Q3K, "q3_k", 11, 110, 2),
    row::<k::Q4K, 256>(Format::Q4K, "q4_k", 12, 144, 2),
    row::<k::Q5K, 256>(Format::Q5K, "q5_k", 13, 176, 2),
    row::<k::Q6K, 256>(Format::Q6K, "q6_k", 14, 210, 2),
    row::<k::Q8K, 256>(Format::Q8K, "q8_k", 15, 292, 4),
    row::<iq::Iq1S, 256>(Format::Iq1S, "iq1_s", 19, 50, 2),
    row::<iq::Iq1M, 256>(Format::Iq1M, "iq1_m", 29, 56, 2),
    row::<iq::Iq2Xxs, 256>(Format::Iq2Xxs, "iq2_xxs", 16, 66, 2),
    row::<iq::Iq2Xs, 256>(Format::Iq2Xs, "iq2_xs", 17, 74, 2),
    row::<iq::Iq2S, 256>(Format::Iq2S, "iq2_s", 22, 82, 2),
    row::<iq::Iq3Xxs, 256>(Format::Iq3Xxs, "iq3_xxs", 18, 98, 2),
    row::<iq::Iq3S, 256>(Format::Iq3S, "iq3_s", 21, 110, 2),
    row::<iq4::Iq4Nl, 32>(Format::Iq4Nl, "iq4_nl", 20, 18, 2),
    row::<iq4::Iq4Xs, 256>(Format::Iq4Xs, "iq4_xs", 23, 136, 2),
    row::<ternary::Tq1_0, 256>(Format::Tq1_0, "tq1_0", 34, 54, 2),
    row::<ternary::Tq2_0, 256>(Format::Tq2_0, "tq2_0", 35, 66, 2),
    row::<fp4::Mxfp4, 32>(Format::Mxfp4, "mxfp4", 39, 17, 1),
    row::<fp4::Nvfp4, 64>(Format::Nvfp4, "nvfp4", 40, 36, 1),
    row::<ternary::Q1_0, 128>(Format::Q1_0, "q1_0", 41, 18, 2),
    row::<ternary::Q2_0, 64>(Format::Q2_0, "q2_0", 42, 18, 2),
];

/// The table at run time. Static: a constant would compile every decoder again in each crate that reads it.
pub(super) static FORMATS: &[FormatInfo] = ROWS;

/// Returns a row whose struct has the size that files have.
const fn row<B: Encode<LEN>, const LEN: usize>(
    format: Format,
    name: &'static str,
    ggml_id: u32,
    block_bytes: usize,
    alignment: usize,
) -> FormatInfo {
    assert!(size_of::<B>() == block_bytes, "the struct of the block has another size");
    assert!(align_of::<B>() == 1, "blocks lie at any address");
    assert!(block_bytes.is_multiple_of(alignment), "blocks in a row keep their alignment");
    FormatInfo {
        format,
        name,
        ggml_id,
        block_len: LEN,
        block_bytes,
        alignment,
        decode: decode_blocks::<B, LEN>,
        encode: encode_blocks::<B, LEN>,
    }
}

const _: () = assert!(super::VARIANTS == COUNT, "every variant has a row");

/// Every format. Not an associated constant: those are evaluated only where they are used.
pub(super) const ALL: [Format; COUNT] = all();

/// Returns every format; compiles only if row `i` is that of variant `i`.
const fn all() -> [Format; COUNT] {
    let mut all = [Format::Q4_0; COUNT];
    let mut i = 0;
    while i < COUNT {
        all[i] = ROWS[i].format;
        assert!(all[i] as usize == i, "the table is in the order of the variants");
        i += 1;
    }
    all
}
