//! The arguments of a native kernel: one tile of the grid, the bindings, the parameters, and memory of the thread.

use std::mem::MaybeUninit;

/// The arguments of a native kernel: one tile of the grid, the bindings and the parameters.
#[derive(Debug)]
pub struct Tile<'a> {
    /// The tile's index in the grid.
    pub index: [u32; 3],
    /// The whole grid.
    pub grid: [u32; 3],
    /// Parameter words.
    pub params: &'a [u32],
    bindings: &'a [TileBinding],
    workspace: Workspace,
}

/// Alignment of the start of a [`Workspace`] in bytes: a cache line, and the widest vector.
pub const WORKSPACE_ALIGNMENT: usize = 64;

/// Memory that one thread owns, for the panels and staging of the tile that it runs. Its contents are unspecified when a
/// tile begins.
#[derive(Clone, Copy, Debug)]
pub struct Workspace {
    /// First byte, aligned to [`WORKSPACE_ALIGNMENT`].
    pub start: *mut u8,
    /// Length in bytes: at least what the kernel declared.
    pub bytes: usize,
}

impl Workspace {
    /// No memory.
    pub const EMPTY: Workspace = Workspace { start: std::ptr::null_mut(), bytes: 0 };
}

/// A binding as a native kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct TileBinding {
    /// First byte.
    pub start: *mut u8,
    /// Length in bytes.
    pub bytes: usize,
}

// SAFETY: a binding is an address and a length. Only unsafe code dereferences it, under the conditions of `NativeFn`.
unsafe impl Send for TileBinding {}
// SAFETY: a binding is `Copy` and has no interior mutability, so a shared one allows no more than a copy.
unsafe impl Sync for TileBinding {}

impl<'a> Tile<'a> {
    /// Creates a tile with an empty workspace.
    #[inline(always)]
    pub fn new(index: [u32; 3], grid: [u32; 3], params: &'a [u32], bindings: &'a [TileBinding]) -> Tile<'a> {
        Tile { index, grid, params, bindings, workspace: Workspace::EMPTY }
    }

    /// Sets the workspace.
    ///
    /// # Safety
    /// The workspace is aligned to [`WORKSPACE_ALIGNMENT`]. Its bytes are valid, and used by this tile alone, while the tile runs.
    #[inline(always)]
    pub unsafe fn with_workspace(self, workspace: Workspace) -> Tile<'a> {
        Tile { workspace, ..self }
    }

    /// Sets the workspace to that of `outer`, for a kernel that runs the tiles of other kernels.
    ///
    /// # Safety
    /// `outer` does not use its workspace while this tile runs.
    #[inline(always)]
    pub unsafe fn with_workspace_of(self, outer: &Tile<'_>) -> Tile<'a> {
        // SAFETY: the workspace of `outer` is aligned and valid (`with_workspace`), and not used by it (`# Safety`).
        unsafe { self.with_workspace(outer.workspace) }
    }

    /// Returns the start of this thread's workspace as memory for a `T`. The bytes are unspecified.
    ///
    /// Kernels keep panels and staging here and not in local arrays: on x86-64, LLVM 22 probes a frame of 32 KiB or more
    /// in a loop that overwrites `r11`, even where it has moved the loop behind code that keeps a value in `r11`.
    ///
    /// # Panics
    /// If the kernel declared less than `size_of::<T>()` bytes ([`NativeKernel::with_workspace`](crate::NativeKernel::with_workspace)).
    ///
    /// # Safety
    /// No other reference into the workspace is in use: every call returns the same bytes.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn workspace<T>(&self) -> &'a mut MaybeUninit<T> {
        const { assert!(align_of::<T>() <= WORKSPACE_ALIGNMENT) };
        let Workspace { start, bytes } = self.workspace;
        assert!(size_of::<T>() <= bytes, "the kernel declared a smaller workspace than it uses");
        // SAFETY: the assertions above hold for length and alignment of `T`; the memory is valid, aligned to
        // `WORKSPACE_ALIGNMENT` and used by this tile alone (`with_workspace`); the caller has no other reference (`# Safety`).
        unsafe { &mut *start.cast::<MaybeUninit<T>>() }
    }

    /// Returns parameter word `i`, or 0.
    #[inline(always)]
    pub fn param(&self, i: usize) -> u32 {
        self.params.get(i).copied().unwrap_or(0)
    }

    /// Returns the bits of parameter word `i` as an f32.
    #[inline(always)]
    pub fn param_f32(&self, i: usize) -> f32 {
        f32::from_bits(self.param(i))
    }

    /// Returns all elements of binding `i`, to read.
    ///
    /// # Safety
    /// The binding exists, is aligned for `T`, holds whole elements of it, and nothing writes the elements that the caller
    /// reads while the slice lives.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(&self, i: usize) -> &'a [T] {
        // SAFETY: the binding exists, is aligned and holds whole elements that nothing writes (`# Safety`).
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts(binding.start.cast::<T>(), binding.bytes / size_of::<T>())
        }
    }

    /// Returns elements `range` of binding `i`, to read. Unlike with [`read`](Tile::read), other tiles may write the other
    /// elements.
    ///
    /// # Safety
    /// The binding exists, is aligned for `T` and holds elements of it up to `range.end`; nothing writes them while the slice
    /// lives.
    #[inline(always)]
    pub unsafe fn read_part<T: Copy>(&self, i: usize, range: std::ops::Range<usize>) -> &'a [T] {
        // SAFETY: the binding exists, is aligned and holds elements up to `range.end`, which nothing writes (`# Safety`).
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts(
                binding.start.cast_const().cast::<T>().add(range.start),
                range.end - range.start,
            )
        }
    }

    /// Returns elements `range` of binding `i`, to write. Tiles of one dispatch run at the same time, so their ranges must be
    /// disjoint.
    ///
    /// # Safety
    /// The binding exists, is aligned for `T` and holds elements of it up to `range.end`; nothing else touches them while the
    /// slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn write<T: Copy>(&self, i: usize, range: std::ops::Range<usize>) -> &'a mut [T] {
        // SAFETY: the binding exists, is aligned and holds elements up to `range.end`, which nothing else touches (`# Safety`).
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts_mut(
                binding.start.cast::<T>().add(range.start),
                range.end - range.start,
            )
        }
    }

    /// Returns the address of binding `i`, or null: for tiles whose outputs are not one range. The rules of [`Tile::read`] and
    /// [`Tile::write`] apply to accesses through it.
    #[inline(always)]
    pub fn start(&self, i: usize) -> *mut u8 {
        self.bindings.get(i).map_or(std::ptr::null_mut(), |binding| binding.start)
    }

    /// Returns the number of bindings.
    #[inline(always)]
    pub fn bound(&self) -> usize {
        self.bindings.len()
    }

    /// Returns the length of binding `i` in bytes, or 0.
    #[inline(always)]
    pub fn bytes(&self, i: usize) -> usize {
        self.bindings.get(i).map_or(0, |binding| binding.bytes)
    }
}
