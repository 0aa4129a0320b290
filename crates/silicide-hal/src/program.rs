//! Programs, from which pipelines are compiled: a native function with one variant per instruction set, or WGSL joined
//! from named snippets. Both are cheap values made of `'static` parts, so that planning a dispatch allocates nothing.

use crate::cpu::Isa;
use crate::native_msl::{Math, NativeMsl};
use crate::needs::{Access, LaunchShape, Needs, NeedsFn};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
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

    /// What a launch of it needs of its bindings, or `None` for a launch that it can't run.
    pub fn needs(&self, params: &[u32], grid: [u32; 3], bound: &[u64]) -> Option<Needs> {
        match self {
            Program::Native(kernel) => (kernel.needs)(&LaunchShape { params, grid, bound, facts: &[] }),
            Program::Wgsl(kernel) => kernel.needs(params, grid, bound),
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
/// The instruction set that the function was registered for is present. The tile is one of a launch whose bindings are
/// live and have what the kernel's [`NeedsFn`] states for it, and nothing but tiles of this launch touches them in a
/// conflicting way: the core guarantees all of this.
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
    // Private: what `new` was promised is about exactly these.
    variants: &'static [NativeVariant],
    needs: NeedsFn,
    streams: Option<StreamFn>,
    workspace: usize,
}

impl NativeKernel {
    /// A kernel whose tiles stream nothing and use no workspace. `variants` are best first; the last is for
    /// [`Isa::Portable`].
    ///
    /// # Safety
    ///
    /// For every parameter list, grid and bound lengths for which `needs` returns needs, and for bindings that have at
    /// least those bytes, that alignment and that access, and are the same bytes only where the needs say so, each variant
    /// is sound for all tiles of the grid, in any order and at once, on a machine with its instruction set:
    ///
    /// - it touches only the bytes that the needs state, and writes only where they state a write;
    /// - bytes that one tile writes, no other tile touches;
    /// - any bytes may be in the bindings: an index that is read from one is checked before it is used.
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

    /// Declares the ranges that tiles stream.
    pub const fn streaming(self, streams: StreamFn) -> NativeKernel {
        NativeKernel { streams: Some(streams), ..self }
    }

    /// Its functions, best first.
    pub const fn variants(&self) -> &'static [NativeVariant] {
        self.variants
    }

    /// States what a launch needs.
    pub const fn needs(&self) -> NeedsFn {
        self.needs
    }

    /// What its tiles stream, if they do.
    pub const fn streams(&self) -> Option<StreamFn> {
        self.streams
    }

    /// Bytes of workspace that a tile uses, at most: see [`Tile::workspace`].
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
/// It is translated with bounds checks, unless [`unchecked`](WgslKernel::unchecked) says what its launches need instead.
/// Each later change of the text makes it checked again.
///
/// # What every kernel keeps to
///
/// - `@group(0) @binding(i)` is argument `i` of the dispatch.
/// - `var<immediate>` begins with one `u32` per binding that is no table: the offset, **in elements of that argument's dtype**, of
///   the argument's first element in the bound window (windows start at the device's offset alignment). The
///   dispatch's own parameter words follow.
/// - The workgroup size is the override `WG`; no subgroup size is assumed.
/// - Storages that are `read_write` in the text are those that the kernel [writes](WgslKernel::writes).
#[derive(Clone, Debug, Eq)]
pub struct WgslKernel {
    /// For labels, counters and messages.
    pub name: &'static str,
    /// The number of bindings.
    pub bindings: u32,
    /// The number of words in the immediate, offsets included.
    pub words: u32,
    /// What Metal's compiler may assume about floating-point arithmetic.
    pub math: Math,
    // Private: what `unchecked` was promised is about exactly these.
    parts: SmallVec<[Part; 6]>,
    constants: SmallVec<[(&'static str, u32); 4]>,
    written: u32,
    msl: Option<&'static NativeMsl>,
    needs: Option<WgslNeeds>,
}

/// How an unchecked kernel states its needs.
#[derive(Clone, Debug)]
struct WgslNeeds {
    function: NeedsFn,
    facts: SmallVec<[u32; 4]>,
}

// The function is part of what a kernel is; two kernels of one text that state their needs differently are both right.
impl PartialEq for WgslNeeds {
    fn eq(&self, other: &WgslNeeds) -> bool {
        self.facts == other.facts
    }
}
impl Eq for WgslNeeds {}

impl PartialEq for WgslKernel {
    fn eq(&self, other: &WgslKernel) -> bool {
        let equal = |(a, b): (&(&'static str, u32), &(&'static str, u32))| a.1 == b.1 && same(a.0, b.0);
        self.parts == other.parts
            && (self.bindings, self.words) == (other.bindings, other.words)
            && (self.math, self.msl) == (other.math, other.msl)
            && (self.written, &self.needs) == (other.written, &other.needs)
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
    /// A kernel of the given parts; see [`WgslKernel`] for what `bindings` and `words` count. It writes the last binding.
    pub fn new(name: &'static str, parts: &[Part], bindings: u32, params: u32) -> WgslKernel {
        WgslKernel {
            name,
            parts: SmallVec::from_slice(parts),
            constants: SmallVec::new(),
            bindings,
            words: bindings + params,
            math: Math::Exact,
            written: bindings.checked_sub(1).and_then(|last| 1u32.checked_shl(last)).unwrap_or(0),
            msl: None,
            needs: None,
        }
    }

    /// Sets an `override` constant.
    pub fn constant(mut self, name: &'static str, value: u32) -> WgslKernel {
        self.constants.push((name, value));
        self.checked()
    }

    /// Appends parts.
    pub fn append(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.parts.extend(parts);
        self.needs = None;
    }

    /// Binds a table after everything bound so far.
    pub fn table(mut self) -> WgslKernel {
        self.bindings += 1;
        self.checked()
    }

    /// Declares which bindings are `read_write` in the text, as bits. Where the text differs, it does not compile.
    pub fn writes(mut self, bindings: u32) -> WgslKernel {
        self.written = bindings;
        self.checked()
    }

    /// Lets Metal's compiler treat floating-point arithmetic more freely.
    pub fn math(mut self, math: Math) -> WgslKernel {
        self.math = math;
        self
    }

    /// Gives Metal a version written by hand, which is used once the kernel is [unchecked](WgslKernel::unchecked).
    pub fn native_msl(mut self, msl: &'static NativeMsl) -> WgslKernel {
        self.msl = Some(msl);
        self.checked()
    }

    /// Translates the kernel without bounds checks. `facts` are words that `needs` sees besides parameters and grid, such
    /// as the bytes of an element.
    ///
    /// # Safety
    ///
    /// For every parameter list, grid and bound lengths for which `needs` returns needs, and for bindings that have at
    /// least those bytes: invocations touch only bytes that the needs state and words that hold such bytes, whatever the
    /// bindings contain; they leave workgroup memory, local arrays and divisors in bounds; no loop is endless. The same
    /// holds for the version for Metal.
    pub unsafe fn unchecked(mut self, needs: NeedsFn, facts: &[u32]) -> WgslKernel {
        self.needs = Some(WgslNeeds { function: needs, facts: SmallVec::from_slice(facts) });
        self
    }

    fn checked(self) -> WgslKernel {
        WgslKernel { needs: None, ..self }
    }

    /// Whether it is translated with bounds checks.
    pub fn is_checked(&self) -> bool {
        self.needs.is_none()
    }

    /// Texts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Values of `override` constants.
    pub fn constants(&self) -> &[(&'static str, u32)] {
        &self.constants
    }

    /// The bindings that it writes, as bits.
    pub fn written(&self) -> u32 {
        self.written
    }

    /// The kernel by hand, for Metal.
    pub fn msl(&self) -> Option<&'static NativeMsl> {
        self.msl
    }

    /// What a launch needs. A checked kernel needs access alone: it stays inside whatever is bound.
    fn needs(&self, params: &[u32], grid: [u32; 3], bound: &[u64]) -> Option<Needs> {
        let access = |i: u32| {
            let written = 1u32.checked_shl(i).is_some_and(|bit| self.written & bit != 0);
            if written { Access::Write } else { Access::Read }
        };
        match &self.needs {
            Some(WgslNeeds { function, facts }) => {
                let needs = function(&LaunchShape { params, grid, bound, facts })?;
                let writes =
                    |(need, i): (&crate::BindingNeed, u32)| need.access.writes() == access(i).writes();
                needs.bindings().iter().zip(0..).all(writes).then_some(needs)
            }
            None => {
                Some((0..self.bindings).fold(Needs::new(), |needs, i| needs.and(access(i), 0u32, 1).over(!0)))
            }
        }
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
