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
//! A text may also have the items of GEMV, which multiplies codes before it scales sums. *Offsets* are the
//! words and bits of sixteen weights in their block, a *head* is the index of the word at which the block begins.
//!
//! | item | what |
//! |---|---|
//! | `PERIOD_$NAME` | elements after which offsets repeat: whole blocks in whole words, at least 16 |
//! | `STEP_$NAME` | what a period adds to a head |
//! | `struct Offsets_$NAME`, `offsets_$NAME(at: u32, inside: u32)` | the offsets of weights that begin at element `at` of the argument and `inside` of their row |
//! | `head_$NAME(at: u32) -> u32` | the head of the block of element `at` |
//! | `struct Codes_$NAME`, `codes_$NAME(head: u32, offsets)` | the codes of `sixteen_$NAME` as floats, with their scales |
//! | `initial_$NAME(sums: vec2<f32>) -> vec2<f32>` | what the two products begin with that `dot` takes: the zero point of the codes times the sums of the first eight activations and of the last |
//! | `dot_$NAME(start: f32, codes, products: vec2<f32>, sums: vec2<f32>) -> f32` | `start`, and the dot product with sixteen activations; `products` are those of the codes with the first eight and with the last |
//! | `values_$NAME(codes) -> mat4x4<f32>` | the weights |
//! | `FACTORED_$NAME`, `weights_$NAME(at: u32) -> mat4x4<f32>` | true if `dot` scales sums; the weights again, for sums that are not finite. `factored.wgsl` has both |
//! | `prepare_$NAME(lane: u32)` | fills shared memory; called from uniform control flow. `factored.wgsl` and `code_book.wgsl` have it |
//!
//! Kernels use them where blocks begin at [`Format::wgsl_codes_alignment`], and all other items elsewhere.
//!
//! Formats whose sixteens are spread by more than 16 may have items for GEMM, which reads rows of weights in steps of 32 elements.
//! They too need [`Format::wgsl_codes_alignment`].
//!
//! | item | returns |
//! |---|---|
//! | `column_$NAME(first: u32) -> u32` | what `run` takes of a row of weights that begins at element `first` |
//! | `run_$NAME(column: u32, depth: u32, half: u32) -> mat4x4<f32>` | sixteen elements in a row from element `depth + 16 * half` of it; `depth` is a multiple of 32, and the same for all invocations |
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

    /// Returns the alignment in bytes that blocks need where kernels use the GEMV items of the text, or `None` if it has none: blocks
    /// begin in words where all blocks do that begin at this alignment.
    pub fn wgsl_codes_alignment(self) -> Option<u32> {
        let bytes = self.info().block_bytes as u32;
        self.wgsl().contains("fn codes_$NAME(").then_some(1 << bytes.trailing_zeros().min(2))
    }

    /// Returns whether the text has the items of GEMM.
    pub fn wgsl_has_runs(self) -> bool {
        self.wgsl().contains("fn run_$NAME(")
    }

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

    #[test]
    fn texts_have_all_items_of_gemv_or_none() {
        let functions = ["codes", "offsets", "head", "initial", "dot", "values", "weights", "prepare"];
        for format in Format::ALL {
            let has = functions.map(|name| format.wgsl().matches(&format!("fn {name}_$NAME(")).count());
            let expected = usize::from(format.wgsl_codes_alignment().is_some());
            assert_eq!(has, [expected; 8], "{format}");
        }
    }

    #[test]
    fn blocks_of_whole_words_need_whole_words() {
        let alignment = |format: Format| format.wgsl_codes_alignment();
        assert_eq!(alignment(Format::Q4K), Some(4));
        assert_eq!(alignment(Format::Q6K), Some(2));
        assert_eq!(alignment(Format::Mxfp4), Some(1));
        assert_eq!(alignment(Format::Q8K), None);
    }
}
