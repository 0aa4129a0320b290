//! Buffers: typed views of device memory.
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | [`Buffer`]: creating, viewing, asking |
//! | `storage.rs` | what views share: the allocation, its tickets, guards and poison |
//! | `guard.rs` | typed host access that waits for the device |
//! | `transfer.rs` | copies in, out and between buffers |
//! | `foreign.rs` | memory that came from elsewhere |
//! | `array.rs` | `ndarray` views (feature `ndarray`) |

#[cfg(feature = "ndarray")]
mod array;
mod foreign;
mod guard;
mod handle;
mod storage;
mod transfer;

#[cfg(feature = "ndarray")]
pub use array::{ArrayGuard, ArrayGuardMut};
pub use foreign::ForeignMemory;
pub use guard::{ReadGuard, WriteGuard};
pub use handle::{Buffer, BufferId, BufferOptions};
pub use storage::StorageId;
pub(crate) use storage::{Storage, StorageState};
