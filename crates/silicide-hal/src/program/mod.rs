//! Programs, from which pipelines are compiled. They are cheap values made of `'static` parts, so that planning a dispatch
//! allocates nothing.
//!
//! | file | what |
//! |---|---|
//! | `native.rs` | a native function for each instruction set |
//! | `tile.rs` | the arguments of a native function: a tile, its bindings, a workspace |
//! | `wgsl.rs` | WGSL joined from named snippets |

mod native;
mod tile;
mod wgsl;

pub use native::{NativeFn, NativeKernel, NativeVariant, PrefetchRange, StreamFn};
pub use tile::{Tile, TileBinding, WORKSPACE_ALIGNMENT, Workspace};
pub use wgsl::{Part, Snippet, WgslKernel};

use crate::needs::{LaunchShape, Needs};

/// The source of a pipeline.
// Planning a dispatch makes one of these and must not allocate: no box round the larger variant.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Program {
    /// A function for the CPU backend.
    Native(&'static NativeKernel),
    /// A kernel for the GPU backends.
    Wgsl(WgslKernel),
}

impl Program {
    /// Returns the kernel's name, for labels and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Native(kernel) => kernel.name,
            Program::Wgsl(kernel) => kernel.name,
        }
    }

    /// Returns what a launch needs of its bindings, or `None` for a launch that the program can't run. `bound` has the
    /// bytes of each binding.
    pub fn needs(&self, params: &[u32], grid: [u32; 3], bound: &[u64]) -> Option<Needs> {
        match self {
            Program::Native(kernel) => kernel.needs()(&LaunchShape { params, grid, bound, facts: &[] }),
            Program::Wgsl(kernel) => kernel.needs(params, grid, bound),
        }
    }

    /// Returns the program for live dispatches: a WGSL kernel reads its parameter words from memory.
    pub fn live(&self) -> Program {
        match self {
            Program::Native(kernel) => Program::Native(kernel),
            Program::Wgsl(kernel) => Program::Wgsl(kernel.clone().live()),
        }
    }

    /// Returns the most bytes of workspace that a tile uses; 0 for GPU kernels.
    pub fn workspace(&self) -> usize {
        match self {
            Program::Native(kernel) => kernel.workspace(),
            Program::Wgsl(_) => 0,
        }
    }
}
