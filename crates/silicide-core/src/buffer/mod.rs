//! Buffers: typed views of device memory.
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | [`Buffer`]: creating, viewing, asking |
//! | `storage.rs` | what views share: the allocation, its tickets, guards and poison |
//! | `guard.rs` | typed host access that waits for the device |
//! | `transfer.rs` | copies in, out and between buffers |
//! | `foreign.rs` | memory that came from elsewhere |
//! | `native.rs` | buffers of the backend's own API, in and out |
//! | `metal.rs` | the same in Metal's types, on Apple's systems |
//! | `array.rs` | `ndarray` views (feature `ndarray`) |

#[cfg(feature = "ndarray")]
mod array;
mod foreign;
mod guard;
mod handle;
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
#[cfg(all(target_vendor = "apple", feature = "metal"))]
pub use metal::MetalBuffer;
pub use native::NativeBuffer;
pub use storage::StorageId;
pub(crate) use storage::{Storage, StorageState};
