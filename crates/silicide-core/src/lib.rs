//! The safe heart of silicide: devices, buffers, memory, recording, kernel selection.
//!
//! | module | what |
//! |---|---|
//! | [`device`] | opening devices; their counters and timelines |
//! | [`buffer`] | typed views of device memory, host guards, copies |
//! | [`memory`] | allocators, pools, mapped files, usage by purpose |
//! | [`kernel`] | ops, kernels, plans, selection, the registry of compiled kernels |
//! | [`record`] | the command encoder, hazards, submissions |
//! | [`graph`] | passes captured once, rewritten, planned, baked and replayed |
//! | [`profile`] | where the time of replays went, by kernel and scope |
//! | [`weights`] | tensors of weight files as buffers |
//! | [`CancelToken`] | asking long work to stop |
//! | [`EncoderWorker`] | a thread that runs closures in order |
//! | [`error`] | the one error type |
//!
//! Safe code here can't see bytes that a device is writing, lose an error of a device, or run two conflicting
//! commands at once; the backends' unsafe contract is kept on its behalf.

pub mod buffer;
mod cancel;
pub mod device;
pub mod error;
pub mod graph;
pub mod kernel;
pub mod memory;
pub mod profile;
pub mod record;
pub mod weights;
mod worker;

pub use buffer::{
    Buffer, BufferId, BufferOptions, ForeignMemory, MemoryLock, NativeBuffer, ReadGuard, StorageId,
    WriteGuard,
};
pub use cancel::CancelToken;
pub use device::{Capture, Counters, Device, DeviceOptions, Listing};
pub use error::{Error, Result};
pub use graph::{
    ComputeGraph, GraphArena, GraphBuilder, GraphExecutor, GraphOptions, GraphSession, GraphValue,
    LiveExtent, Parameter, Pass,
};
pub use memory::{Allocator, BufferPool, Purpose, Usage};
pub use profile::{Profile, ProfileRow, Roofline};
pub use record::{BufferRange, CommandEncoder, EncoderOptions, LabelTime, MemRanges, Recorder, Submission};
pub use silicide_hal as hal;
pub use silicide_hal::{DeviceInfo, MemoryKind, cpu::Isa};
pub use silicide_weights::MappedFile;
pub use weights::{
    AsWeight, LoadEvent, LoadOptions, LoadProgress, LoadReport, Loader, Placement, Weight, Weights,
};
pub use worker::{EncoderWorker, WorkerTask};

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
