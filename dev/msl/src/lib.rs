//! Metal kernels without Metal: clang checks the MSL that naga writes against a C++ form of Metal's standard library
//! (`include/metal_stdlib`), and a device runs it on the host with the barriers and the SIMD groups of 32 of an Apple
//! GPU.
//!
//! | file | what |
//! |---|---|
//! | `clang.rs` | the compiler: finding it, its arguments |
//! | `entry.rs` | the parameters of a kernel's entry point, compared with the bindings of the host |
//! | `unit.rs` | kernels as one C++ file; each keeps its own lines in messages |
//! | `check.rs` | many kernels, a few processes |
//! | `device.rs` | a [`silicide_hal::RawDevice`] whose pipelines are shared libraries |
//!
//! What this can't tell: errors in address spaces (they are erased), what Apple's compiler makes of the same text, and
//! its fast forms of functions.

mod check;
mod clang;
mod device;
mod entry;
mod unit;

pub use check::check;
pub use clang::Clang;
pub use device::{MslDevice, info, open};
use silicide_hal::wgsl::{MSL_VERSION, MslTarget};
pub use unit::Kernel;

/// A device that takes every kernel written by hand.
pub const NEWEST: MslTarget = MslTarget { language: (3, 2), simdgroup_matrix: true };

/// A device for which everything is translated, and that has no matrices.
pub const OLDEST: MslTarget = MslTarget { language: MSL_VERSION, simdgroup_matrix: false };
