//! The contract between silicide's safe core and the machines it runs on.
//!
//! # The constitution
//!
//! 1. **A backend has no ops.** It has the 22 verbs of [`RawDevice`], 7 of them optional: memory, pipelines, lists,
//!    waiting, times. A new op never adds a verb.
//! 2. **Handles are words** ([`RawBlock`], [`RawPipeline`]), so the trait is object-safe, command lists are
//!    plain data (`Clone + Send`), and nothing is downcast.
//! 3. **All validation happens above.** Calling a verb with a freed handle, a range outside its block or a list
//!    whose hazards are not separated by barriers is undefined behaviour; the safe core excludes it. A backend must not
//!    check such things in part: a check here would suggest that the core need not.
//! 4. **Errors are those that the core cannot foresee**: out of memory, a lost device, a time-out, a failure of the driver,
//!    a kernel that panicked. No device error is dropped: every [`RawDevice::wait`] for a ticket returns the error of
//!    its list, and status is read *after* waiting.
//! 5. **The core numbers the timeline.** Tickets passed to `submit` strictly increase; a backend reaches them in
//!    order. Ticket 0 is always reached.
//! 6. **Order.** Submissions take effect in the order of their tickets, as if a barrier stood between them. Within
//!    a list only [`Command::Barrier`] orders: everything before it happens, and is visible, before anything
//!    after it. Commands of one group (between two barriers) may run at once.
//! 7. **A baked list is a list.** [`RawDevice::bake`] puts it into the form that the device runs, once;
//!    [`RawDevice::replay`] is a submission of it, with the same conditions on both sides. A replay changes no word of the
//!    list: values that change between replays lie in blocks. A baked list uses its handles until it is unbaked. Replays
//!    may follow each other without waiting.
//!    A *live* dispatch has parameter words, grid and lengths of bindings in a block too ([`LaunchWords`]). The host writes them
//!    while no list that reads them is in flight. The CPU reads them when the list starts; Vulkan and Metal dispatch indirectly.
//! 8. **A native kernel has no large frame.** Panels and staging lie in a workspace that each thread of the CPU backend
//!    owns, never in local arrays of 32 KiB or more. A kernel declares how many bytes its tiles use
//!    ([`NativeKernel::with_workspace`]); [`Tile::workspace`] returns them. The backend makes every thread's workspace as
//!    large as the largest that a list declares, in `submit` before anything runs and in `bake`: a replay allocates
//!    nothing, and a failed allocation is an error of `submit` or `bake`. Workspaces never shrink;
//!    [`RawDevice::workspace_bytes`] counts them.
//!
//! # Where things are
//!
//! | item | what |
//! |---|---|
//! | [`RawDevice`] | the verbs of a backend |
//! | [`CommandList`] | the flat command list |
//! | [`Forward`] | a wrapper of a device that states only what differs |
//! | [`baked`] | lists kept for replay by backends without a form of their own for it |
//! | [`Program`] | the source of a pipeline: a native function or WGSL |
//! | [`Needs`] | what a launch of a program needs of its bindings |
//! | [`DeviceInfo`] | limits, features and memory of a device |
//! | [`HalError`] | errors of a backend |
//! | [`cpu`], `vulkan`, `metal` (on Apple's systems), [`null`] | the backends |
//! | `wgsl` | translation of WGSL to SPIR-V and MSL; the only user of naga |
//!
//! # Features
//!
//! `vulkan` and `metal` (both on by default) compile these backends; either of them turns on `wgsl`. Without them the
//! crate has the CPU and the null backend, and depends on neither ash nor naga.

pub mod baked;
mod command;
pub mod cpu;
mod error;
mod forward;
// Shared by the GPU backends.
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod history;
mod info;
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod ledger;
mod matrices;
#[cfg(all(feature = "metal", any(target_vendor = "apple", test)))]
pub mod metal;
mod native_msl;
mod needs;
pub mod null;
mod program;
#[cfg(feature = "vulkan")]
pub mod vulkan;
#[cfg(feature = "wgsl")]
pub mod wgsl;
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod window;

pub use command::{Binding, Command, CommandList, Dispatch, LaunchWords, Words};
pub use error::{HalError, Result};
pub use forward::Forward;
pub use info::{Backend, DeviceInfo, Features, Limits, Memory};
pub use matrices::{MatrixShape, MatrixShapes};
pub use native_msl::{Math, NativeMsl};
pub use needs::{Access, BindingNeed, Count, LaunchShape, Needs, NeedsFn};
pub use program::{
    NativeFn, NativeKernel, NativeVariant, Part, PrefetchRange, Program, Snippet, StreamFn, Tile,
    TileBinding, WORKSPACE_ALIGNMENT, WgslKernel, Workspace,
};

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

/// A piece of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RawBlock(pub u64);

/// A compiled kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawPipeline(pub u64);

/// A list in the form that a device runs, kept to be run again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawBaked(pub u64);

/// A point on a device's timeline: the work submitted with it, and all before it, is finished when it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Ticket(pub u64);

/// Which of host and device can access a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Mapped for the host as long as it lives, and coherent.
    Shared,
    /// For the device alone; the host reaches it through copies. On a device with unified memory it may be
    /// host-visible all the same.
    Private,
}

/// Size and kind of a block to allocate.
#[derive(Clone, Copy, Debug)]
pub struct BlockDesc {
    /// Size in bytes, at least 1.
    pub bytes: usize,
    /// Which of host and device must be able to access it.
    pub kind: MemoryKind,
}

/// Host memory to be used by a device in place. The caller keeps it alive, and its bytes unchanged by others,
/// until the block is freed.
#[derive(Clone, Copy, Debug)]
pub struct HostRegion {
    /// First byte.
    pub start: NonNull<u8>,
    /// Length in bytes.
    pub bytes: usize,
    /// Whether kernels may write to it.
    pub writable: bool,
}

/// Host memory in use by a device. Devices import whole pages, so the block may begin before the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The block.
    pub block: RawBlock,
    /// Where in the block the region's first byte lies.
    pub offset: usize,
}

/// A part of a device that has an object in the API of the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeObject {
    /// The device: an `MTLDevice`.
    Device,
    /// The queue that lists run on: an `MTLCommandQueue`.
    Queue,
    /// The counter whose value is the ticket of the last finished list: an `MTLSharedEvent`.
    Timeline,
    /// The buffer over a live block: an `MTLBuffer`.
    Block(RawBlock),
}

/// The device time that passed between a mark and the next one (or the end of the list).
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The label of the mark that opens the span.
    pub label: &'static str,
    /// Nanoseconds from the first mark of the list to this one.
    pub start_ns: u64,
    /// Nanoseconds until the next mark or the end of the list.
    pub duration_ns: u64,
}

/// Tiles of one command that one thread of the CPU device ran without a break.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadSpan {
    /// The thread; 0 is the one that submitted the list.
    pub thread: u32,
    /// The kernel, or `copy` or `fill`.
    pub label: &'static str,
    /// Nanoseconds from the first mark of the list.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
}

/// Times of the CPU device's threads in a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTimes {
    /// Spans, thread by thread. Spans of one thread are in order and do not overlap.
    pub spans: Vec<ThreadSpan>,
    /// Spans that did not fit.
    pub dropped: u64,
}

/// An opened device. The [constitution](crate#the-constitution) has the conditions for both sides.
///
/// # Safety
///
/// Implementors keep the rules of the constitution: memory that `map` returns stays valid until `free`, lists
/// execute in the declared order, `wait` returns `Ok` only when the ticket was reached without error.
pub unsafe trait RawDevice: Send + Sync {
    /// Returns limits, features and memory.
    fn info(&self) -> &DeviceInfo;

    /// Allocates a block, aligned to at least 256 bytes. Its bytes are initialised but unspecified; zero on the CPU and
    /// on null.
    ///
    /// # Safety
    /// `desc.bytes` is between 1 and `Limits::max_block`.
    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock>;

    /// Uses host memory in place as a block. Returns `None` where the device can't.
    ///
    /// # Safety
    /// The memory of `host` stays valid, and only this device and the lists submitted to it touch it, until the block is freed.
    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>>;

    /// Uses a buffer of the backend's own API (an `MTLBuffer`) as a block. Returns `None` if the API has no such buffers. The
    /// block keeps the object alive.
    ///
    /// # Safety
    /// `object` is a live object of that type, of this device, whose bytes are unchanged by others until the block is
    /// freed.
    unsafe fn adopt(&self, object: NonNull<c_void>) -> Result<Option<RawBlock>> {
        let _ = object;
        Ok(None)
    }

    /// Returns an object of the backend's own API, where there is one. The device owns it.
    ///
    /// # Safety
    /// A block in `of` is live. The object is used only in ways that keep the constitution.
    unsafe fn native(&self, of: NativeObject) -> Option<NonNull<c_void>> {
        let _ = of;
        None
    }

    /// Frees a block.
    ///
    /// # Safety
    /// The block is live and every ticket that used it was reached.
    unsafe fn free(&self, block: RawBlock);

    /// Returns the mapping of a block (not of an import), or `None` for memory that the host can't access.
    ///
    /// # Safety
    /// The block is live. The pointer is not used after `free`, nor for bytes that a list in flight writes.
    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>>;

    /// Translates a program into the form that is kept on disk to compile it faster next time (SPIR-V on Vulkan). Returns
    /// `None` where nothing is worth keeping.
    fn translate(&self, program: &Program) -> Result<Option<Vec<u8>>>;

    /// Compiles a program. `binary` is the result of [`RawDevice::translate`] for it, if at hand. Threads may compile at the
    /// same time.
    ///
    /// # Safety
    /// The program stays inside its bindings in every list that dispatches it. `binary` is a result of `translate` for this
    /// program, possibly damaged on disk.
    unsafe fn compile(&self, label: &str, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline>;

    /// Frees a pipeline.
    ///
    /// # Safety
    /// The pipeline is live and every ticket that used it was reached.
    unsafe fn discard(&self, pipeline: RawPipeline);

    /// Returns driver data for the next run (a Vulkan pipeline cache); empty where there is none.
    fn driver_cache(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Runs a list. May return before the list has run. If it fails, nothing of the list runs and the ticket is skipped.
    ///
    /// # Safety
    /// Handles are live, ranges lie in their blocks, hazards are separated by barriers, `ticket` is greater than
    /// every ticket submitted before, and submissions do not race each other. The words of a live dispatch are as
    /// [`LaunchWords`] says, and the host does not write them until `ticket` is reached.
    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()>;

    /// Puts a list into the form that this device runs, for [`RawDevice::replay`]. Nothing runs.
    ///
    /// # Safety
    /// Until the list is unbaked: handles are live, ranges lie in their blocks. Hazards are separated by barriers.
    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked>;

    /// Runs a baked list: a submission of the list that was baked. Values that change between replays lie in blocks that
    /// the list reads.
    ///
    /// # Safety
    /// `baked` is live. Hazards are separated by barriers, `ticket` is greater than every ticket submitted before, and
    /// submissions do not race each other. The words of a live dispatch are as [`LaunchWords`] says, and the host does
    /// not write them until `ticket` is reached.
    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()>;

    /// Frees a baked list.
    ///
    /// # Safety
    /// It is baked, and every ticket that it was replayed with was reached.
    unsafe fn unbake(&self, baked: RawBaked);

    /// Waits until `ticket` is reached and returns the error of its list, if any.
    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()>;

    /// Returns the last ticket reached.
    fn reached(&self) -> Result<Ticket>;

    /// Returns the bytes of the workspaces of all threads that run native kernels; 0 where there are none.
    fn workspace_bytes(&self) -> usize {
        0
    }

    /// Returns the spans of a list that was reached; empty without marks or timestamps. Kept for the last 64 lists with
    /// marks.
    fn spans(&self, ticket: Ticket) -> Vec<Span>;

    /// Returns the times of each thread in a traced list with marks that was reached; empty on devices other than the CPU. Kept
    /// as long as spans.
    fn thread_times(&self, ticket: Ticket) -> ThreadTimes {
        let _ = ticket;
        ThreadTimes::default()
    }

    /// Starts to capture the device's work into a file for the vendor's debugger (a `.gputrace`); with `None`, stops.
    fn capture(&self, to: Option<&Path>) -> Result<()> {
        let _ = to;
        Err(HalError::Unavailable {
            backend: self.info().backend.name(),
            detail: "it has no way to capture its work".to_owned(),
            advice: "Use the tools of the GPU's vendor, or a Metal device",
        })
    }

    /// Returns the messages of the validation layer since the last call.
    fn validation_messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
