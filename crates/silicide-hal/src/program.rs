//! Programs, from which pipelines are compiled: a native function with one variant per instruction set, or WGSL joined
//! from named snippets. Both are cheap values made of `'static` parts, so that planning a dispatch allocates nothing.

use crate::cpu::Isa;
use crate::native_msl::{Math, NativeMsl};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A kernel before compilation.
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
    /// The kernel's name, for labels and messages.
    pub fn name(&self) -> &'static str {
        match self {
            Program::Native(kernel) => kernel.name,
            Program::Wgsl(kernel) => kernel.name,
        }
    }

    /// Bytes of workspace that a tile uses, at most; 0 for GPU kernels.
    pub fn workspace(&self) -> usize {
        match self {
            Program::Native(kernel) => kernel.workspace,
            Program::Wgsl(_) => 0,
        }
    }
}

/// Runs one tile of a dispatch.
///
/// # Safety
///
/// The instruction set that the function was registered for is present, and the tile's bindings are what the
/// kernel expects, live and free of conflicting access: the core guarantees both.
pub type NativeFn = unsafe fn(&Tile<'_>);

/// Returns the read-only address ranges (at most two) that this tile streams, such as weights, so that idle threads can prefetch
/// them. Unused ranges are empty. A hint only. It is called before earlier commands have run: it uses extents and parameters,
/// never buffer contents.
pub type StreamFn = fn(&Tile<'_>) -> [PrefetchRange; 2];

/// A range of addresses to prefetch. Nothing reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchRange {
    /// Address of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub bytes: usize,
}

/// A CPU kernel: one function per instruction set that is worth it, best first, the last one portable.
#[derive(Debug)]
pub struct NativeKernel {
    /// For labels, counters and messages.
    pub name: &'static str,
    /// Best first; the last has [`Isa::Portable`].
    pub variants: &'static [NativeVariant],
    /// Returns the ranges that a tile streams; `None` if tiles stream nothing.
    pub streams: Option<StreamFn>,
    /// Bytes of workspace that a tile uses, at most: see [`Tile::workspace`].
    pub workspace: usize,
}

impl NativeKernel {
    /// A kernel whose tiles stream nothing and use no workspace.
    pub const fn new(name: &'static str, variants: &'static [NativeVariant]) -> NativeKernel {
        NativeKernel { name, variants, streams: None, workspace: 0 }
    }

    /// Declares that a tile uses up to `bytes` bytes of workspace.
    pub const fn with_workspace(self, bytes: usize) -> NativeKernel {
        NativeKernel { workspace: bytes, ..self }
    }

    /// Declares the ranges that tiles stream.
    pub const fn streaming(self, streams: StreamFn) -> NativeKernel {
        NativeKernel { streams: Some(streams), ..self }
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

/// The arguments of a native kernel: one tile of the grid, the bindings and the parameters.
#[derive(Debug)]
pub struct Tile<'a> {
    /// Which tile of the grid.
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

// SAFETY: a binding is an address and a length; bytes are touched only under the conditions of `NativeFn`.
unsafe impl Send for TileBinding {}
// SAFETY: a shared binding allows no more than a copied one.
unsafe impl Sync for TileBinding {}

impl<'a> Tile<'a> {
    /// A tile over given bindings, with an empty workspace.
    #[inline(always)]
    pub fn new(index: [u32; 3], grid: [u32; 3], params: &'a [u32], bindings: &'a [TileBinding]) -> Tile<'a> {
        Tile { index, grid, params, bindings, workspace: Workspace::EMPTY }
    }

    /// The same tile with a workspace. The memory stays valid, and belongs to this tile alone, while the tile runs.
    #[inline(always)]
    pub fn with_workspace(self, workspace: Workspace) -> Tile<'a> {
        Tile { workspace, ..self }
    }

    /// The same tile with the workspace of `outer`, for a kernel that runs the tiles of other kernels.
    #[inline(always)]
    pub fn with_workspace_of(self, outer: &Tile<'_>) -> Tile<'a> {
        self.with_workspace(outer.workspace)
    }

    /// Returns the start of this thread's workspace as memory for a `T`. The bytes are unspecified.
    ///
    /// Kernels keep panels and staging here and not in local arrays: on x86-64, LLVM 22 probes a frame of 32 KiB or more
    /// in a loop that overwrites `r11`, even where it has moved the loop behind code that keeps a value in `r11`.
    ///
    /// # Panics
    /// If the kernel declared less than `size_of::<T>()` bytes ([`NativeKernel::with_workspace`]).
    ///
    /// # Safety
    /// No other reference into the workspace is in use: every call returns the same bytes.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn workspace<T>(&self) -> &'a mut MaybeUninit<T> {
        const { assert!(align_of::<T>() <= WORKSPACE_ALIGNMENT) };
        let Workspace { start, bytes } = self.workspace;
        assert!(size_of::<T>() <= bytes, "the kernel declared a smaller workspace than it uses");
        // SAFETY: the workspace holds as many bytes, is aligned, and belongs to this tile (`with_workspace`); the caller
        // has no other reference to it.
        unsafe { &mut *start.cast::<MaybeUninit<T>>() }
    }

    /// Parameter word `i`, or 0.
    #[inline(always)]
    pub fn param(&self, i: usize) -> u32 {
        self.params.get(i).copied().unwrap_or(0)
    }

    /// Parameter word `i` as f32.
    #[inline(always)]
    pub fn param_f32(&self, i: usize) -> f32 {
        f32::from_bits(self.param(i))
    }

    /// Binding `i` as elements to read.
    ///
    /// # Safety
    /// The binding exists, holds whole elements of type `T`, and nothing writes the elements that the caller
    /// reads while the slice lives.
    #[inline(always)]
    pub unsafe fn read<T: Copy>(&self, i: usize) -> &'a [T] {
        // SAFETY: the binding exists and holds whole elements that nothing writes (`# Safety`); the core aligned it to its dtype.
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts(binding.start.cast::<T>(), binding.bytes / size_of::<T>())
        }
    }

    /// Elements `range` of binding `i`, to read. Unlike [`read`](Tile::read) it says nothing about the other
    /// elements, which other tiles may be writing.
    ///
    /// # Safety
    /// The binding exists and holds elements of type `T` up to `range.end`; nothing writes them while the slice
    /// lives.
    #[inline(always)]
    pub unsafe fn read_part<T: Copy>(&self, i: usize, range: std::ops::Range<usize>) -> &'a [T] {
        // SAFETY: the binding exists and holds elements up to `range.end`, which nothing writes (`# Safety`).
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts(
                binding.start.cast_const().cast::<T>().add(range.start),
                range.end - range.start,
            )
        }
    }

    /// Elements `range` of binding `i`, to write. Tiles of one dispatch run at once: ranges of different tiles
    /// must be disjoint.
    ///
    /// # Safety
    /// The binding exists and holds elements of type `T` up to `range.end`; nothing else touches them while the
    /// slice lives.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn write<T: Copy>(&self, i: usize, range: std::ops::Range<usize>) -> &'a mut [T] {
        // SAFETY: the binding exists and holds elements up to `range.end`, which nothing else touches (`# Safety`).
        unsafe {
            let binding = self.bindings.get_unchecked(i);
            std::slice::from_raw_parts_mut(
                binding.start.cast::<T>().add(range.start),
                range.end - range.start,
            )
        }
    }

    /// The first byte of binding `i`, or null: for tiles whose outputs are not one range. Reading and writing
    /// through it is under the same rules as [`Tile::read`] and [`Tile::write`].
    #[inline(always)]
    pub fn start(&self, i: usize) -> *mut u8 {
        self.bindings.get(i).map_or(std::ptr::null_mut(), |binding| binding.start)
    }

    /// The number of bindings.
    #[inline(always)]
    pub fn bound(&self) -> usize {
        self.bindings.len()
    }

    /// The length of binding `i` in bytes; 0 when there is none.
    #[inline(always)]
    pub fn bytes(&self, i: usize) -> usize {
        self.bindings.get(i).map_or(0, |binding| binding.bytes)
    }
}

/// A named piece of WGSL. Where the text says `$NAME` and `$BINDING`, a [`Part`] puts its own.
#[derive(Debug)]
pub struct Snippet {
    /// For messages and reports.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

impl PartialEq for Snippet {
    fn eq(&self, other: &Snippet) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Snippet {}
impl Hash for Snippet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}

/// A snippet in its place.
#[derive(Clone, Copy, Debug, Eq)]
pub struct Part {
    /// The text.
    pub snippet: &'static Snippet,
    /// Replaces `$NAME`.
    pub name: &'static str,
    /// Replaces `$BINDING`.
    pub binding: u32,
}

// Every dispatch looks its program up. Names are nearly always the same statics: comparing addresses first, and
// hashing no text, makes that cheap. What tells programs apart are snippets and the values of constants.
impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.snippet == other.snippet && self.binding == other.binding && same(self.name, other.name)
    }
}
impl Hash for Part {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.snippet.hash(state);
        self.binding.hash(state);
    }
}

fn same(a: &'static str, b: &'static str) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Part {
    /// A snippet used as it stands.
    pub const fn plain(snippet: &'static Snippet) -> Part {
        Part { snippet, name: "", binding: 0 }
    }

    /// A snippet for one binding.
    pub const fn bound(snippet: &'static Snippet, name: &'static str, binding: u32) -> Part {
        Part { snippet, name, binding }
    }
}

/// A WGSL kernel: parts joined in order, entry point `main`, `override` constants baked in.
///
/// # What every kernel keeps to
///
/// - `@group(0) @binding(i)` is argument `i` of the dispatch.
/// - `var<immediate>` begins with one `u32` per binding that is no table: the offset, **in elements of that argument's dtype**, of
///   the argument's first element in the bound window (windows start at the device's offset alignment). The
///   dispatch's own parameter words follow.
/// - The workgroup size is the override `WG`; no subgroup size is assumed.
#[derive(Clone, Debug, Eq)]
pub struct WgslKernel {
    /// For labels, counters and messages.
    pub name: &'static str,
    /// Texts, joined in order.
    pub parts: SmallVec<[Part; 6]>,
    /// Values of `override` constants.
    pub constants: SmallVec<[(&'static str, u32); 4]>,
    /// The number of bindings.
    pub bindings: u32,
    /// The number of words in the immediate, offsets included.
    pub words: u32,
    /// What Metal's compiler may assume about floating-point arithmetic.
    pub math: Math,
    /// The kernel by hand, for Metal.
    pub msl: Option<&'static NativeMsl>,
    _private: PhantomData<()>,
}

impl PartialEq for WgslKernel {
    fn eq(&self, other: &WgslKernel) -> bool {
        let equal = |(a, b): (&(&'static str, u32), &(&'static str, u32))| a.1 == b.1 && same(a.0, b.0);
        self.parts == other.parts
            && (self.bindings, self.words) == (other.bindings, other.words)
            && (self.math, self.msl) == (other.math, other.msl)
            && self.constants.len() == other.constants.len()
            && self.constants.iter().zip(&other.constants).all(equal)
            && same(self.name, other.name)
    }
}
impl Hash for WgslKernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.hash(state);
        for (_, value) in &self.constants {
            value.hash(state);
        }
        self.words.hash(state);
    }
}

impl WgslKernel {
    /// A kernel of the given parts; see [`WgslKernel`] for what `bindings` and `words` count.
    pub fn new(name: &'static str, parts: &[Part], bindings: u32, params: u32) -> WgslKernel {
        WgslKernel {
            name,
            parts: SmallVec::from_slice(parts),
            constants: SmallVec::new(),
            bindings,
            words: bindings + params,
            math: Math::Exact,
            msl: None,
            _private: PhantomData,
        }
    }

    /// Sets an `override` constant.
    pub fn constant(mut self, name: &'static str, value: u32) -> WgslKernel {
        self.constants.push((name, value));
        self
    }

    /// Binds a table after everything bound so far.
    pub fn table(mut self) -> WgslKernel {
        self.bindings += 1;
        self
    }

    /// Lets Metal's compiler treat floating-point arithmetic more freely.
    pub fn math(mut self, math: Math) -> WgslKernel {
        self.math = math;
        self
    }

    /// Gives Metal a version written by hand.
    pub fn native_msl(mut self, msl: &'static NativeMsl) -> WgslKernel {
        self.msl = Some(msl);
        self
    }

    /// The joined text. `enable` directives are collected at the top, as WGSL requires, without duplicates.
    pub fn source(&self) -> String {
        let mut enables: Vec<&str> = Vec::new();
        let mut body = String::new();
        for part in &self.parts {
            for line in part.snippet.text.lines() {
                if line.trim_start().starts_with("enable ") {
                    if !enables.contains(&line.trim()) {
                        enables.push(line.trim());
                    }
                } else {
                    body.push_str(
                        &line.replace("$NAME", part.name).replace("$BINDING", &part.binding.to_string()),
                    );
                    body.push('\n');
                }
            }
        }
        let mut text = enables.join("\n");
        text.push('\n');
        text.push_str(&body);
        text
    }
}
