//! The only door to naga: WGSL in, SPIR-V and MSL out.
//!
//! A [`WgslKernel`](crate::WgslKernel) is joined, parsed, held against what it declares about itself, specialised by
//! its constants and written for one target. Nothing outside this folder names a naga type, so that the translator
//! can be moved to another version in one place.
//!
//! Our kernels are trusted and proven by the planner above, so none of the guards that browsers need are emitted: no
//! bounds checks, no loop bounds, no division checks, no zeroing of workgroup memory.
//!
//! | file | what |
//! |---|---|
//! | `specialise` | text to a checked module with constants baked in |
//! | `spirv` | that module as SPIR-V for one device's capabilities |
//! | `strip` | removes layout decorations where Vulkan forbids them |
//! | `share` | says that workgroup memory is shared, where Vulkan's memory model wants to be told |
//! | `msl` | that module as MSL, with the slots its arguments take |

mod msl;
mod share;
mod specialise;
mod spirv;
mod strip;

pub use msl::{MSL_VERSION, Msl, MslTarget, msl_for, to_msl};
pub use spirv::{SpirvTarget, has_matrices, is_well_formed, to_spirv};

/// Names the translator in cache keys: changes whenever the same WGSL may give other code.
pub const TRANSLATOR: &str = "naga 30.0.1 unchecked stripped 1";
