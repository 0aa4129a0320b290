//! WGSL decoders of block formats: one file per format, `wgsl/NAME.wgsl`.
//!
//! [`Format::wgsl`] is the text for a binding called `$NAME` at `$BINDING`. It expects `p.$NAME_offset`, where the argument begins
//! in its binding, in **bytes**. `at` counts elements from the argument's first. The text defines:
//!
//! | item | returns |
//! |---|---|
//! | `load_$NAME(at: u32) -> f32` | element `at` |
//! | `eight_$NAME(at: u32) -> mat2x4<f32>` | eight elements from `at`, a multiple of 8 |
//! | `sixteen_$NAME(at: u32) -> mat4x4<f32>` | eight elements from `at`, then eight from `at + SPREAD_$NAME` |
//!
//! The two eights of `sixteen_$NAME` share their bytes where the format packs them so. `SPREAD_$NAME` is a power of two of at
//! least 8, and twice the spread divides the block. `at` is a multiple of 8 in the first half of a run of twice the spread.
//! All three read the same values.
//!
//! Functions that a kernel does not call cost nothing: naga removes them before it writes SPIR-V or MSL. A format without an
//! `eight` or a `sixteen` of its own takes `eight_by_load.wgsl` or `sixteen_by_eight.wgsl`.
//!
//! Formats with a code book ([`Format::wgsl_table`]) also expect `word_$NAME(code: u32) -> u32`, which [`Format::WGSL_TABLE`]
//! defines over a binding of the book's words.
//!
//! Neighbours: the table in `mod.rs`, whose rows name the files; the definitions in the files of the families.

use super::{Format, iq_grids};

/// The files of a row of `formats!`, after the access to bytes.
macro_rules! text {
    ($($file:literal)+) => {
        concat!(include_str!("wgsl/bytes.wgsl"), $(include_str!(concat!("wgsl/", $file, ".wgsl"))),+)
    };
}
pub(super) use text;

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

    /// Returns the words that GPU kernels need beside blocks to read the format: its code book, if it has one.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_every_format_defines_each_decoder_once() {
        for format in Format::ALL {
            for item in ["fn load_$NAME(", "fn eight_$NAME(", "fn sixteen_$NAME(", "const SPREAD_$NAME:"] {
                assert_eq!(format.wgsl().matches(item).count(), 1, "{format}: {item}");
            }
        }
    }
}
