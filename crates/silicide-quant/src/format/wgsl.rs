//! Formats as WGSL: what a GPU kernel needs to read single elements of a block format.
//!
//! The text of a format defines, for a binding called `$NAME` at `$BINDING`, the function `load_$NAME(at: u32) -> f32`:
//! element `at`, counted from the argument's first. It expects `p.$NAME_offset`, where the argument begins in its
//! binding, in **bytes**.
//!
//! [`Format::wgsl_eight`] is text that goes with it and defines `eight_$NAME(at: u32) -> mat2x4<f32>`: eight elements from
//! a multiple of eight on, whose scales are read and unpacked once where that is worth it.
//!
//! [`Format::wgsl_sixteen`] goes with both and defines `sixteen_$NAME(at: u32) -> mat4x4<f32>` and `SPREAD_$NAME`: eight
//! elements from `at` on and eight from `at + SPREAD_$NAME` on, which share their bytes where the format packs so. The
//! spread is a power of two of at least 8, twice the spread divides the block, and `at` is a multiple of 8 in the first half of a run of
//! twice the spread.
//!
//! Formats with a code book ([`Format::wgsl_table`]) also expect `word_$NAME(code: u32) -> u32`, which [`Format::WGSL_TABLE`] defines
//! over a binding of the book's words: as a constant in the text, compilers would copy it for every invocation.
//!
//! These decoders read a few bytes per element and are right for every format; kernels that are fast for one format
//! have code of their own. Neighbours: the definitions in `legacy`, `k`, `iq`, `iq4`, `ternary` and `fp4`.

use super::{Format, iq_grids};

macro_rules! text {
    ($($file:literal)+) => {
        concat!(include_str!("wgsl/bytes.wgsl"), $(include_str!(concat!("wgsl/", $file, ".wgsl"))),+)
    };
}

macro_rules! eight {
    ($file:literal) => {
        concat!(include_str!("wgsl/lanes.wgsl"), include_str!(concat!("wgsl/eight_", $file, ".wgsl")))
    };
}

/// Code words, two to a word, first lowest.
const fn pairs<const WORDS: usize, const PAIRS: usize>(words: &[u16; WORDS]) -> [u32; PAIRS] {
    assert!(WORDS == 2 * PAIRS, "two code words to a word");
    let mut pairs = [0; PAIRS];
    let mut i = 0;
    while i < PAIRS {
        pairs[i] = words[2 * i] as u32 | (words[2 * i + 1] as u32) << 16;
        i += 1;
    }
    pairs
}

static IQ1: [u32; 1024] = pairs(&iq_grids::IQ1);
static IQ2_XXS: [u32; 128] = pairs(&iq_grids::IQ2_XXS);
static IQ2_XS: [u32; 256] = pairs(&iq_grids::IQ2_XS);
static IQ2_S: [u32; 512] = pairs(&iq_grids::IQ2_S);
static IQ3_XXS: [u32; 128] = pairs(&iq_grids::IQ3_XXS);
static IQ3_S: [u32; 256] = pairs(&iq_grids::IQ3_S);

impl Format {
    /// The text that reads the table of a format, bound at `$BINDING`, for the argument `$NAME`.
    pub const WGSL_TABLE: &'static str = include_str!("wgsl/table.wgsl");

    /// Sixteen elements in a row by twice eight.
    pub const WGSL_SIXTEEN: &'static str = include_str!("wgsl/sixteen.wgsl");

    /// The words that GPU kernels need beside blocks to read the format: its code book, if it has one.
    pub const fn wgsl_table(self) -> Option<&'static [u32]> {
        match self {
            Format::Iq1S | Format::Iq1M => Some(&IQ1),
            Format::Iq2Xxs => Some(&IQ2_XXS),
            Format::Iq2Xs => Some(&IQ2_XS),
            Format::Iq2S => Some(&IQ2_S),
            Format::Iq3Xxs => Some(&IQ3_XXS),
            Format::Iq3S => Some(&IQ3_S),
            _ => None,
        }
    }

    /// How GPU kernels read the format.
    pub const fn wgsl(self) -> &'static str {
        match self {
            Format::Q4_0 => text!("q4_0"),
            Format::Q4_1 => text!("q4_1"),
            Format::Q5_0 => text!("q5_0"),
            Format::Q5_1 => text!("q5_1"),
            Format::Q8_0 => text!("q8_0"),
            Format::Q8_1 => text!("q8_1"),
            Format::Q2K => text!("q2_k"),
            Format::Q3K => text!("q3_k"),
            Format::Q4K => text!("k_subs" "q4_k"),
            Format::Q5K => text!("k_subs" "q5_k"),
            Format::Q6K => text!("q6_k"),
            Format::Q8K => text!("q8_k"),
            Format::Iq1S => text!("iq1_s"),
            Format::Iq1M => text!("iq1_m"),
            Format::Iq2Xxs => text!("iq_signs" "iq2_xxs"),
            Format::Iq2Xs => text!("iq_signs" "iq2_xs"),
            Format::Iq2S => text!("iq_signs" "iq2_s"),
            Format::Iq3Xxs => text!("iq_signs" "iq3_xxs"),
            Format::Iq3S => text!("iq_signs" "iq3_s"),
            Format::Iq4Nl => text!("iq4_levels" "iq4_nl"),
            Format::Iq4Xs => text!("iq4_levels" "iq4_xs"),
            Format::Tq1_0 => text!("tq1_0"),
            Format::Tq2_0 => text!("tq2_0"),
            Format::Mxfp4 => text!("fp4" "mxfp4"),
            Format::Nvfp4 => text!("fp4" "nvfp4"),
            Format::Q1_0 => text!("q1_0"),
            Format::Q2_0 => text!("q2_0"),
        }
    }

    /// How GPU kernels read eight elements at a time; belongs to [`Format::wgsl`].
    pub const fn wgsl_eight(self) -> &'static str {
        match self {
            Format::Q4_0 => eight!("q4_0"),
            Format::Q4_1 => eight!("q4_1"),
            Format::Q5_0 => eight!("q5_0"),
            Format::Q5_1 => eight!("q5_1"),
            Format::Q8_0 => eight!("q8_0"),
            Format::Q2K => eight!("q2_k"),
            Format::Q3K => eight!("q3_k"),
            Format::Q4K => eight!("q4_k"),
            Format::Q5K => eight!("q5_k"),
            Format::Q6K => eight!("q6_k"),
            Format::Iq4Nl => eight!("iq4_nl"),
            Format::Iq4Xs => eight!("iq4_xs"),
            _ => include_str!("wgsl/eight.wgsl"),
        }
    }

    /// How GPU kernels read sixteen elements at a time; belongs to [`Format::wgsl`] and [`Format::wgsl_eight`].
    pub const fn wgsl_sixteen(self) -> &'static str {
        match self {
            Format::Q4_0 => include_str!("wgsl/sixteen_q4_0.wgsl"),
            Format::Q4_1 => include_str!("wgsl/sixteen_q4_1.wgsl"),
            Format::Q5_0 => include_str!("wgsl/sixteen_q5_0.wgsl"),
            Format::Q5_1 => include_str!("wgsl/sixteen_q5_1.wgsl"),
            Format::Q8_0 => include_str!("wgsl/sixteen_q8_0.wgsl"),
            Format::Q4K => concat!(include_str!("wgsl/k_pairs.wgsl"), include_str!("wgsl/sixteen_q4_k.wgsl")),
            Format::Q5K => concat!(include_str!("wgsl/k_pairs.wgsl"), include_str!("wgsl/sixteen_q5_k.wgsl")),
            Format::Q6K => include_str!("wgsl/sixteen_q6_k.wgsl"),
            _ => Format::WGSL_SIXTEEN,
        }
    }
}
