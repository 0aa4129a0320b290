//! Atomics and threads: the standard library's, or loom's models of them when the protocol is being checked.

#[cfg(not(all(test, loom)))]
pub(super) use std::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence},
    thread::{Thread, current, park},
};

#[cfg(all(test, loom))]
pub(super) use loom::{
    sync::Mutex,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence},
    thread::{Thread, current, park},
};

/// Whether waiting threads spin at all: a model has no time to pass.
pub(super) const SPINS: bool = !cfg!(all(test, loom));

/// A value alone on its cache lines (two, since neighbours are fetched in pairs).
#[repr(align(128))]
pub(super) struct Padded<T>(pub(super) T);
