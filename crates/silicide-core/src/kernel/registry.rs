//! The kernel registry: compiled kernels of one device. Compiled on first use, shared between threads, never
//! compiled twice, kept on disk where the device was opened with a cache directory.

use super::cache::DiskCache;
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use silicide_hal::{HalError, Program, RawDevice, RawPipeline};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A kernel being compiled or compiled: the first thread to ask compiles, others wait for it.
type Entry = Arc<OnceLock<Result<RawPipeline, HalError>>>;

/// The compiled kernels of a device.
pub struct KernelRegistry {
    raw: Arc<dyn RawDevice>,
    entries: RwLock<FxHashMap<Program, Entry>>,
    cache: Option<DiskCache>,
    compiled: AtomicU64,
    from_cache: AtomicU64,
}

/// What a registry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistryUsage {
    /// Kernels there are.
    pub kernels: usize,
    /// Kernels compiled from source.
    pub compiled: u64,
    /// Kernels whose translation was found on disk.
    pub from_cache: u64,
}

impl KernelRegistry {
    pub(crate) fn new(raw: Arc<dyn RawDevice>, cache: Option<PathBuf>) -> KernelRegistry {
        let cache = cache.map(|directory| DiskCache::new(&directory, &raw.info().fingerprint));
        KernelRegistry {
            raw,
            entries: RwLock::default(),
            cache,
            compiled: AtomicU64::new(0),
            from_cache: AtomicU64::new(0),
        }
    }

    /// The compiled form of a program.
    pub(crate) fn pipeline(&self, program: &Program) -> Result<RawPipeline> {
        let known = self.entries.read().unwrap_or_else(PoisonError::into_inner).get(program).cloned();
        let entry = known.unwrap_or_else(|| {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(program.clone()).or_default())
        });
        let compiled = entry.get_or_init(|| self.compile(program)).clone();
        compiled.map_err(|error| {
            // A failure may pass (memory, say): the next one who asks tries again.
            self.entries.write().unwrap_or_else(PoisonError::into_inner).remove(program);
            Error::device(&self.raw.info().id, error)
        })
    }

    fn compile(&self, program: &Program) -> Result<RawPipeline, HalError> {
        let key = self.cache.as_ref().map(|cache| (cache, cache.key(program)));
        let cached = key.as_ref().and_then(|(cache, key)| cache.load(key));
        if cached.is_some() {
            self.from_cache.fetch_add(1, Relaxed);
        } else {
            self.compiled.fetch_add(1, Relaxed);
        }
        let binary = match cached {
            Some(binary) => Some(binary),
            None => self.raw.translate(program)?.inspect(|binary| {
                if let Some((cache, key)) = &key {
                    cache.store(key, binary);
                }
            }),
        };
        // SAFETY: programs come from the kernels of ops, which keep inside the bindings that their plans ask for;
        // conformance tries each with guarded outputs.
        unsafe { self.raw.compile(program.name(), program, binary.as_deref()) }
    }

    /// Compiles programs ahead of their use, in parallel. Says the first failure; the others are compiled anyway.
    pub fn warm_up(&self, programs: &[Program]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut first = Ok(());
            while let Some(program) = programs.get(next.fetch_add(1, Relaxed)) {
                first = first.and(self.pipeline(program).map(|_| ()));
            }
            first
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(programs.len());
        std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let own = work();
            let joined = helpers.into_iter().map(|helper| helper.join().unwrap_or(Ok(())));
            joined.chain([own]).collect()
        })
    }

    /// What the registry did so far.
    pub fn usage(&self) -> RegistryUsage {
        RegistryUsage {
            kernels: self.entries.read().unwrap_or_else(PoisonError::into_inner).len(),
            compiled: self.compiled.load(Relaxed),
            from_cache: self.from_cache.load(Relaxed),
        }
    }
}

impl fmt::Debug for KernelRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KernelRegistry({:?} on {})", self.usage(), self.raw.info().id)
    }
}

impl Drop for KernelRegistry {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.store_driver(&self.raw.driver_cache());
        }
        let entries = std::mem::take(self.entries.get_mut().unwrap_or_else(PoisonError::into_inner));
        for entry in entries.into_values() {
            if let Some(Ok(pipeline)) = entry.get() {
                // SAFETY: the device goes with its registry; nothing is in flight any more.
                unsafe { self.raw.discard(*pipeline) };
            }
        }
    }
}
