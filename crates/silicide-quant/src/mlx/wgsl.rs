//! Formats of MLX as WGSL: what a GPU kernel needs to read elements of a weight in planes.
//!
//! The text of a format defines, for the plane of codes bound as `$NAME` at `$BINDING`, the function
//! `load_$NAME(at: u32) -> f32`: element `at`, counted from the argument's first. It expects `p.$NAME_offset` in words, values
//! for the overrides `BITS_$NAME` and `GROUP_$NAME`, and the other planes: affine formats call
//! `load_$NAME_scales(group) -> f32` and `load_$NAME_biases(group) -> f32`, the others `get_$NAME_scales(group) -> u32`,
//! a byte. Together with it, the text for eight defines `eight_$NAME(at: u32) -> mat2x4<f32>`: eight elements from a
//! multiple of eight on. Neighbour: `format/wgsl.rs` does the same for blocks.

use super::MlxMode;

impl MlxMode {
    /// How GPU kernels read formats of this mode.
    pub const fn wgsl(self) -> &'static str {
        match self {
            MlxMode::Affine => concat!(include_str!("wgsl/codes.wgsl"), include_str!("wgsl/affine.wgsl")),
            MlxMode::Mxfp4 => concat!(
                include_str!("wgsl/codes.wgsl"),
                include_str!("../format/wgsl/fp4.wgsl"),
                include_str!("wgsl/power.wgsl"),
                include_str!("wgsl/mxfp4.wgsl")
            ),
            MlxMode::Mxfp8 => concat!(
                include_str!("wgsl/codes.wgsl"),
                include_str!("wgsl/small.wgsl"),
                include_str!("wgsl/power.wgsl"),
                include_str!("wgsl/mxfp8.wgsl")
            ),
            MlxMode::Nvfp4 => concat!(
                include_str!("wgsl/codes.wgsl"),
                include_str!("../format/wgsl/fp4.wgsl"),
                include_str!("wgsl/small.wgsl"),
                include_str!("wgsl/nvfp4.wgsl")
            ),
        }
    }

    /// How GPU kernels read eight elements at a time; belongs to [`MlxMode::wgsl`].
    pub const fn wgsl_eight(self) -> &'static str {
        match self {
            MlxMode::Affine => include_str!("wgsl/eight_affine.wgsl"),
            _ => include_str!("../format/wgsl/eight.wgsl"),
        }
    }
}
