//! Memory: who gives it ([`Allocator`]), who keeps it for reuse ([`BufferPool`]), and how much of it is used for
//! what ([`Usage`]).
//!
//! | file | what |
//! |---|---|
//! | `allocator.rs` | the trait, and what an allocation is |
//! | `suballocator.rs` | the memory of a device: few big blocks, cut in ranges |
//! | `pool.rs` | power-of-two buckets kept for reuse, under a byte budget |
//! | `mapped.rs` | read-only memory over mapped files |
//! | `budget.rs` | bytes by purpose, with peaks and a limit |
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
pub use suballocator::DeviceAllocator;
