//! The CPU backend: kernels are functions, threads claim tiles.
//!
//! | file | what |
//! |---|---|
//! | `isa` | instruction sets, and their detection |
//! | `options` | how to open the device |
//! | `executor` | the device: [`open`], and the verbs of [`RawDevice`](crate::RawDevice) |
//! | `plan` | a command list turned into groups of tiles, ready to run |
//! | `pool` | the threads that run it |
//! | `workspace` | memory that each thread owns, for panels and staging |
//! | `lanes` | times of each thread in traced lists |
//! | `fault` | the first panic of a submission |
//! | `timeline` | tickets reached, failures and spans kept |
//! | `memory` | blocks of host memory |
//! | `lock` | pages that stay resident |
//! | `caches` | the size of the L2 cache |
//! | `cores` | the default number of threads |
//! | `machine` | name of the processor, size of memory |

mod caches;
mod cores;
mod executor;
mod fault;
mod isa;
mod lanes;
mod lock;
mod machine;
pub(crate) mod memory;
mod options;
mod plan;
mod pool;
mod timeline;
mod workspace;

pub use executor::{info, open};
pub use isa::{Isa, UnknownIsa};
pub use lock::{lock_limit, lock_memory, unlock_memory};
pub use machine::resident_memory;
pub use options::CpuOptions;
