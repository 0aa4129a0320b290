//! WGSL decoders of MLX formats: one file per mode, `wgsl/NAME.wgsl`.
//!
//! [`MlxMode::wgsl`] is the text for the plane of codes, bound as `$NAME` at `$BINDING`. It defines `load_$NAME`, `eight_$NAME`,
//! `sixteen_$NAME` and `SPREAD_$NAME` as the texts of block formats do (`format/wgsl.rs`). It expects `p.$NAME_offset` in words,
//! values for the overrides `BITS_$NAME` and `GROUP_$NAME`, and access to the other planes: affine formats call
//! `load_$NAME_scales(group) -> f32` and `load_$NAME_biases(group) -> f32`, the others `get_$NAME_scales(group) -> u32`, a byte.

use super::MlxMode;

/// The file of a mode between the access to codes and what every mode shares.
macro_rules! text {
    ($($file:literal)+) => {
        concat!(
            include_str!("wgsl/codes.wgsl"),
            $(include_str!($file),)+
            include_str!("../format/wgsl/sixteen_by_eight.wgsl"),
        )
    };
}

impl MlxMode {
    /// Returns the text that decodes formats of this mode.
    pub const fn wgsl(self) -> &'static str {
        match self {
            MlxMode::Affine => text!("wgsl/affine.wgsl"),
            MlxMode::Mxfp4 => text!(
                "../format/wgsl/fp4.wgsl" "wgsl/mxfp4.wgsl" "../format/wgsl/eight_by_load.wgsl"
            ),
            MlxMode::Mxfp8 => {
                text!("wgsl/mxfp8.wgsl" "../format/wgsl/eight_by_load.wgsl")
            }
            MlxMode::Nvfp4 => text!(
                "../format/wgsl/fp4.wgsl" "wgsl/nvfp4.wgsl" "../format/wgsl/eight_by_load.wgsl"
            ),
        }
    }
}
