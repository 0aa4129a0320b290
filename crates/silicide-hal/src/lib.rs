//! The contract between silicide's safe core and the machines it runs on.
//!
//! # The constitution
//!
//! 1. **A backend knows no ops.** It has the dozen verbs of [`RawDevice`]: memory, pipelines, lists, waiting.
//!    A new op never adds a verb.
//! 2. **Handles are words** ([`RawBlock`], [`RawPipeline`]), so the trait is object-safe, command lists are
//!    plain data (`Clone + Send`), and nothing is downcast.
//! 3. **All validation happens above.** Calling a verb with a freed handle, a range outside its block or a list
//!    whose hazards are not separated by barriers is undefined behaviour; the safe core proves that it never
//!    does. A backend must not half-check such things: a check here would suggest that the core need not.
//! 4. **Errors are what nobody could foresee**: out of memory, a lost device, a time-out, driver trouble, a kernel
//!    that panicked. No device error is dropped: what goes wrong after [`RawDevice::submit`] has returned is
//!    reported by every [`RawDevice::wait`] for that ticket, and status is read *after* waiting.
//! 5. **The core numbers the timeline.** Tickets given to `submit` strictly increase; a backend reaches them in
//!    order. Ticket 0 is always reached.
//! 6. **Order.** Submissions take effect in the order of their tickets, as if a barrier stood between them. Within
//!    a list only [`Command::Barrier`] orders: everything before it happens, and is visible, before anything
//!    after it. Commands of one group (between two barriers) may run at once.
//! 7. **A baked list is a list.** [`RawDevice::bake`] puts it into the form that the device runs, once;
//!    [`RawDevice::replay`] is a submission of it, with the same promises on both sides. A replay changes no word of the
//!    list: what changes between replays is read from blocks. What a list uses, its baked form uses until it is unbaked. Replays may follow each other without waiting.
//! 8. **A native kernel has no large frame.** Panels and staging lie in a workspace that each thread of the CPU backend
//!    owns, never in local arrays of 32 KiB or more. A kernel declares how many bytes its tiles use
//!    ([`NativeKernel::with_workspace`]); [`Tile::workspace`] gives them. The backend makes every thread's workspace as
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
//! | [`Program`] | what a pipeline is made from: a native function or WGSL |
//! | [`DeviceInfo`] | limits, features and memory of a device |
//! | [`HalError`] | errors of a backend |
//! | [`cpu`], `vulkan`, `metal` (on Apple's systems), [`null`] | the backends |
//! | `wgsl` | the only user of naga: WGSL to SPIR-V and MSL |
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
// What the GPU backends share.
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod history;
mod info;
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod ledger;
#[cfg(all(feature = "metal", any(target_vendor = "apple", test)))]
pub mod metal;
mod native_msl;
pub mod null;
mod program;
#[cfg(feature = "vulkan")]
pub mod vulkan;
#[cfg(feature = "wgsl")]
pub mod wgsl;
#[cfg(any(feature = "vulkan", all(feature = "metal", target_vendor = "apple")))]
mod window;

pub use command::{Binding, Command, CommandList, Dispatch, Words};
pub use error::{HalError, Result};
pub use forward::Forward;
pub use info::{Backend, DeviceInfo, Features, Limits, Memory};
pub use native_msl::{Math, NativeMsl};
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

/// Who can see a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// Mapped for the host as long as it lives, and coherent.
    Shared,
    /// For the device alone; the host reaches it through copies. On a device with unified memory it may be
    /// host-visible all the same.
    Private,
}

/// What to allocate.
#[derive(Clone, Copy, Debug)]
pub struct BlockDesc {
    /// Size in bytes, at least 1.
    pub bytes: usize,
    /// Who must be able to see it.
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

/// Something of a device that its own API has an object for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeObject {
    /// The device: an `MTLDevice`.
    Device,
    /// The queue that lists run on: an `MTLCommandQueue`.
    Queue,
    /// What counts to the ticket of the last list that finished: an `MTLSharedEvent`.
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

/// What the threads of the CPU device did in a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadTimes {
    /// Thread by thread; those of one thread in order, and without overlap.
    pub spans: Vec<ThreadSpan>,
    /// More that there were, for which there was no room.
    pub dropped: u64,
}

/// An opened device. See the [constitution](crate#the-constitution) for what both sides promise.
///
/// # Safety
///
/// Implementors keep the rules of the constitution: memory that `map` returns stays valid until `free`, lists
/// execute in the declared order, `wait` returns `Ok` only when the ticket was reached without error.
pub unsafe trait RawDevice: Send + Sync {
    /// Limits, features, memory.
    fn info(&self) -> &DeviceInfo;

    /// Allocates a block, aligned to at least 256 bytes. Its bytes are initialised but unspecified; zero on the CPU and
    /// on null.
    ///
    /// # Safety
    /// `desc.bytes` is between 1 and `Limits::max_block`.
    unsafe fn alloc(&self, desc: &BlockDesc) -> Result<RawBlock>;

    /// Uses host memory in place as a block, or says `None` where the device can't.
    ///
    /// # Safety
    /// As for [`HostRegion`].
    unsafe fn import(&self, host: HostRegion) -> Result<Option<Imported>>;

    /// Uses a buffer of the backend's own API (an `MTLBuffer`) as a block, or says `None` where there is no such thing.
    /// The block keeps the object alive.
    ///
    /// # Safety
    /// `object` is a live object of that type, of this device, whose bytes are unchanged by others until the block is
    /// freed.
    unsafe fn adopt(&self, object: NonNull<c_void>) -> Result<Option<RawBlock>> {
        let _ = object;
        Ok(None)
    }

    /// The object of the backend's own API behind something, where there is one. It belongs to the device.
    ///
    /// # Safety
    /// A block is live. What is done with the object keeps the constitution.
    unsafe fn native(&self, of: NativeObject) -> Option<NonNull<c_void>> {
        let _ = of;
        None
    }

    /// Gives a block back.
    ///
    /// # Safety
    /// The block is live and every ticket that used it was reached.
    unsafe fn free(&self, block: RawBlock);

    /// The host's view of a block (not of an import), or `None` for memory that the host can't see.
    ///
    /// # Safety
    /// The block is live; bytes that a device is writing are not touched through the pointer.
    unsafe fn map(&self, block: RawBlock) -> Option<NonNull<[u8]>>;

    /// Turns a program into what this device keeps on disk to compile it faster next time (SPIR-V on Vulkan), or
    /// `None` where there is nothing worth keeping.
    fn translate(&self, program: &Program) -> Result<Option<Vec<u8>>>;

    /// Compiles a program. `binary` is what [`RawDevice::translate`] gave for it, when at hand. Any thread, at once.
    ///
    /// # Safety
    /// The program is sound for every list it will be dispatched in: it stays inside its bindings.
    unsafe fn compile(&self, label: &str, program: &Program, binary: Option<&[u8]>) -> Result<RawPipeline>;

    /// Frees a pipeline.
    ///
    /// # Safety
    /// The pipeline is live and every ticket that used it was reached.
    unsafe fn discard(&self, pipeline: RawPipeline);

    /// Driver data worth keeping between runs (a Vulkan pipeline cache); empty where there is none.
    fn driver_cache(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Runs a list. May return before it has run. When it fails, nothing of the list runs and the ticket is skipped.
    ///
    /// # Safety
    /// Handles are live, ranges lie in their blocks, hazards are separated by barriers, `ticket` is greater than
    /// every ticket submitted before, and submissions do not race each other.
    unsafe fn submit(&self, list: &CommandList, ticket: Ticket) -> Result<()>;

    /// Puts a list into the form that this device runs, for [`RawDevice::replay`]. Nothing runs.
    ///
    /// # Safety
    /// As for `submit`, from now until the list is unbaked: handles stay live, and their ranges where they are.
    unsafe fn bake(&self, list: &CommandList) -> Result<RawBaked>;

    /// Runs a baked list: a submission of the list that was baked. Values that change between replays lie in blocks that
    /// the list reads.
    ///
    /// # Safety
    /// `baked` is live. Hazards are separated by barriers, `ticket` is greater than every ticket submitted before, and
    /// submissions do not race each other.
    unsafe fn replay(&self, baked: RawBaked, ticket: Ticket) -> Result<()>;

    /// Frees a baked list.
    ///
    /// # Safety
    /// It is baked, and every ticket that it was replayed with was reached.
    unsafe fn unbake(&self, baked: RawBaked);

    /// Waits until `ticket` is reached and says how its list went.
    fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()>;

    /// The last ticket reached.
    fn reached(&self) -> Result<Ticket>;

    /// Bytes of the workspaces of all threads that run native kernels; 0 where there are none.
    fn workspace_bytes(&self) -> usize {
        0
    }

    /// Times of the marks of a list that was reached; empty without marks or timestamps. Kept for the last 64 lists.
    fn spans(&self, ticket: Ticket) -> Vec<Span>;

    /// What each thread did in a traced list with marks that was reached, where the device is made of threads. Kept as long as spans.
    fn thread_times(&self, ticket: Ticket) -> ThreadTimes {
        let _ = ticket;
        ThreadTimes::default()
    }

    /// Begins to record everything that the device does into a file for the maker's debugger (a `.gputrace`), or with
    /// `None` ends it.
    fn capture(&self, to: Option<&Path>) -> Result<()> {
        let _ = to;
        Err(HalError::Unavailable {
            backend: self.info().backend.name(),
            detail: "it has no way to capture its work".to_owned(),
            advice: "Use the tools of the GPU's maker, or a Metal device",
        })
    }

    /// Messages of a validation layer since the last call.
    fn validation_messages(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
