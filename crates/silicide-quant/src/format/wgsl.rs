//! Formats as WGSL: what a GPU kernel needs to read single elements of a block format.
//!
//! The text of a format defines, for a binding called `$NAME` at `$BINDING`, the function `load_$NAME(at: u32) -> f32`:
//! element `at`, counted from the argument's first. It expects `p.$NAME_offset`, where the argument begins in its
//! binding, in **bytes**.
//!
//! These decoders read a few bytes per element and are right for every format; kernels that are fast for one format
//! have code of their own. Neighbours: the definitions in `legacy`, `k`, `iq`, `iq4`, `ternary` and `fp4`.

use super::Format;

macro_rules! text {
    ($($file:literal)+) => {
        concat!(include_str!("wgsl/bytes.wgsl"), $(include_str!(concat!("wgsl/", $file, ".wgsl"))),+)
    };
}

impl Format {
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
            Format::Iq1S => text!("iq1_book" "iq1_s"),
            Format::Iq1M => text!("iq1_book" "iq1_m"),
            Format::Iq2Xxs => text!("iq2_xxs_book" "iq_signs" "iq2_xxs"),
            Format::Iq2Xs => text!("iq2_xs_book" "iq_signs" "iq2_xs"),
            Format::Iq2S => text!("iq2_s_book" "iq_signs" "iq2_s"),
            Format::Iq3Xxs => text!("iq3_xxs_book" "iq_signs" "iq3_xxs"),
            Format::Iq3S => text!("iq3_s_book" "iq_signs" "iq3_s"),
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
}
