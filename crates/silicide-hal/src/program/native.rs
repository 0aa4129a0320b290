//! CPU kernels: a function for each instruction set, what its launches need, and what its tiles stream.

use super::tile::Tile;
use crate::cpu::Isa;
use crate::needs::NeedsFn;
use std::hash::{Hash, Hasher};

/// Computes one tile of a dispatch.
///
/// # Safety
///
/// The CPU has the instruction set that the function was registered for. The tile belongs to a launch whose bindings are live
/// and have what the kernel's [`NeedsFn`] states. Only tiles of this launch touch them in a conflicting way. The core checks
/// all of this when it lowers a launch.
pub type NativeFn = unsafe fn(&Tile<'_>);

/// Returns the read-only address ranges (at most two) that this tile streams, such as weights, so that idle threads can prefetch
/// them. Unused ranges are empty. A hint only. It is called before earlier commands have run: it uses extents and parameters,
/// never buffer contents.
pub type StreamFn = fn(&Tile<'_>) -> [PrefetchRange; 2];

/// A range of addresses to prefetch. It is never dereferenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchRange {
    /// Address of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A CPU kernel: a function for each instruction set that has one, best first. The last is portable.
#[derive(Debug)]
pub struct NativeKernel {
    /// For labels, counters and messages.
    pub name: &'static str,
    // Private: the safety contract of `new` covers exactly these.
    variants: &'static [NativeVariant],
    needs: NeedsFn,
    streams: Option<StreamFn>,
    workspace: usize,
}

impl NativeKernel {
    /// Creates a kernel whose tiles stream nothing and use no workspace. `variants` are best first; the last is for
    /// [`Isa::Portable`].
    ///
    /// # Safety
    ///
    /// Assume parameters, grid and bound lengths for which `needs` returns needs, and bindings with at least those bytes, that
    /// alignment and that access, which alias only where the needs allow it. Then each variant is sound on a CPU with its
    /// instruction set, for all tiles of the grid, in any order and at the same time:
    ///
    /// - it touches only the bytes that the needs state, and writes only where they state a write;
    /// - no tile touches a byte that another tile writes;
    /// - it is sound for any contents of the bindings: an index read from a binding is checked before it is used.
    pub const unsafe fn new(
        name: &'static str,
        needs: NeedsFn,
        variants: &'static [NativeVariant],
    ) -> NativeKernel {
        NativeKernel { name, variants, needs, streams: None, workspace: 0 }
    }

    /// Declares that a tile uses up to `bytes` bytes of workspace.
    pub const fn with_workspace(self, bytes: usize) -> NativeKernel {
        NativeKernel { workspace: bytes, ..self }
    }

    /// Sets the function that returns the ranges that a tile streams.
    pub const fn streaming(self, streams: StreamFn) -> NativeKernel {
        NativeKernel { streams: Some(streams), ..self }
    }

    /// Returns its functions, best first.
    pub const fn variants(&self) -> &'static [NativeVariant] {
        self.variants
    }

    /// Returns the function that states what a launch needs.
    pub const fn needs(&self) -> NeedsFn {
        self.needs
    }

    /// Returns the function that returns the ranges that a tile streams.
    pub const fn streams(&self) -> Option<StreamFn> {
        self.streams
    }

    /// Returns the most bytes of workspace that a tile uses; see [`Tile::workspace`].
    pub const fn workspace(&self) -> usize {
        self.workspace
    }
}

// Kernels are statics: their address is their identity.
impl PartialEq for NativeKernel {
    fn eq(&self, other: &NativeKernel) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for NativeKernel {}
impl Hash for NativeKernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// A function and the instruction set it needs.
#[derive(Clone, Copy, Debug)]
pub struct NativeVariant {
    /// The instruction set that the function needs.
    pub isa: Isa,
    /// The function.
    pub entry: NativeFn,
}
