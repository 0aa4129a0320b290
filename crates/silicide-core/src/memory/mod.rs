//! Memory: allocators ([`Allocator`], [`DeviceAllocator`]), reuse ([`BufferPool`]), and how much is
//! in use for which [`Purpose`] ([`Usage`]).
//!
//! Nothing here waits for a device: storages die only after the last ticket that used them was reached (the
//! timeline holds them until then), so memory that comes back is free to be used again.

mod allocator;
mod budget;
mod mapped;
mod pool;
mod suballocator;

pub use allocator::{Allocation, Allocator, Request};
pub(crate) use budget::Budget;
pub use budget::{Purpose, PurposeUsage, Usage};
pub(crate) use mapped::mapped_range;
pub(crate) use pool::Shelf;
pub use pool::{BufferPool, PoolUsage};
pub use suballocator::ALIGNMENT;
pub use suballocator::DeviceAllocator;
