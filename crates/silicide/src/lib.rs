#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use silicide_core::{
    Allocator, Buffer, BufferId, BufferOptions, BufferPool, BufferRange, CancelToken, Capture,
    CommandEncoder, ComputeGraph, Counters, Device, DeviceInfo, DeviceOptions, EncoderOptions,
    EncodingWorker, Error, Estimate, Estimated, ForeignMemory, GraphBuilder, GraphExecutor, GraphOptions,
    GraphSession, GraphValue, Isa, Listing, LoadEvent, LoadOptions, LoadProgress, LoadReport, Loader,
    MappedFile, MemRanges, MemoryKind, NativeBuffer, Parameter, Pass, Pending, Placement, PlanarWeight,
    Profile, ProfileRow, Purpose, ReadGuard, Recorder, Result, Roofline, StorageId, Submission, Usage,
    Weight, Weights, WriteGuard, buffer, device, error, graph, kernel, memory, profile, record,
};
pub use silicide_hal as hal;
/// The bindings to Metal that this crate speaks through (`objc2`, `objc2_foundation`, `objc2_metal`), for those who speak
/// to Metal beside it.
#[cfg(all(target_vendor = "apple", feature = "metal"))]
pub use silicide_hal::metal::bindings as metal;
pub use silicide_ops as ops;
pub use silicide_quant as quant;
pub use silicide_quant::{DType, Element, Shape, bf16, f16};
pub use silicide_weights as weights;

/// The names that most programs need.
pub mod prelude {
    pub use crate::{Buffer, CommandEncoder, DType, Device, Error, Recorder, Result, Shape, ops};
}
