//! The only door to naga: WGSL in, SPIR-V and MSL out.
//!
//! A [`WgslKernel`](crate::WgslKernel) is joined, parsed, compared with what it declares, specialised by
//! its constants and written for one target. Nothing outside this folder names a naga type, so that the translator
//! can be moved to another version in one place.
//!
//! A kernel gets bounds checks, loop bounds and division checks, as in a browser. A kernel that is
//! [unchecked](crate::WgslKernel::unchecked) gets none of them: its launches are checked against what it needs instead.
//! Workgroup memory is never zeroed.
//!
//! | file | what |
//! |---|---|
//! | `specialise` | text to a checked module with constants baked in |
//! | `reflect` | what a text declares: bindings, parameters, workgroup |
//! | `spirv` | that module as SPIR-V for one device's capabilities |
//! | `strip` | removes layout decorations where Vulkan forbids them |
//! | `halves` | execution modes for f16 |
//! | `share` | declares workgroup memory as shared, as Vulkan's memory model requires |
//! | `msl` | that module as MSL, with the slots its arguments take |

mod halves;
mod msl;
mod reflect;
mod share;
mod specialise;
mod spirv;
mod strip;

pub use msl::{MSL_VERSION, Msl, MslTarget, msl_for, to_msl};
pub use reflect::{Interface, interface_of, least_bytes};
pub use spirv::{SpirvTarget, has_matrices, is_well_formed, to_spirv};

use crate::{HalError, Program, Result, WgslKernel};

/// Returns the WGSL kernel of a program, or the error of a GPU backend for a native one.
pub fn kernel_of(program: &Program) -> Result<&WgslKernel> {
    match program {
        Program::Wgsl(kernel) => Ok(kernel),
        Program::Native(kernel) => Err(HalError::Compile {
            label: kernel.name.to_owned(),
            detail: "a native kernel runs on the CPU backend only".to_owned(),
        }),
    }
}

/// Names the translator in cache keys: changes whenever the same WGSL may become other code.
pub const TRANSLATOR: &str = "naga 30.0.1 stripped 4";
