//! Buffers: typed views of device memory.
//!
//! A [`Buffer`] has an element type and a shape. Views of it share its memory. The host reads and writes it through a
//! [`ReadGuard`] or a [`WriteGuard`], which wait for the device. [`ForeignMemory`] and [`NativeBuffer`] bring in memory that
//! was allocated elsewhere. Feature `ndarray` adds host views as arrays.

#[cfg(feature = "ndarray")]
mod array;
mod foreign;
mod guard;
mod handle;
mod lock;
#[cfg(all(target_vendor = "apple", feature = "metal"))]
mod metal;
mod native;
mod storage;
mod transfer;

#[cfg(feature = "ndarray")]
pub use array::{ArrayGuard, ArrayGuardMut};
pub use foreign::ForeignMemory;
pub use guard::{ReadGuard, WriteGuard};
pub use handle::{Buffer, BufferId, BufferOptions};
pub use lock::MemoryLock;
#[cfg(all(target_vendor = "apple", feature = "metal"))]
pub use metal::MetalBuffer;
pub use native::NativeBuffer;
pub use storage::StorageId;
pub(crate) use storage::{Storage, StorageState, fresh_id};
