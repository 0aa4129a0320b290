//! The kernel registry: compiled kernels of one device. Compiled on first use, shared between threads, never
//! compiled twice, kept on disk where the device was opened with a cache directory.

use super::named::{KernelText, MslLaunch, NamedKernel, TextInterface, no_text};
use super::{Access, DiskCache};
use crate::error::{Error, Result};
use rustc_hash::FxHashMap;
use silicide_hal::{Backend, HalError, NativeKernel, Program, RawDevice, RawPipeline};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// A kernel, compiled or being compiled: the first thread that requests it compiles, others wait.
type Entry = Arc<OnceLock<Result<Compiled, HalError>>>;

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(crate) struct Compiled {
    pub(crate) pipeline: RawPipeline,
    /// The least bytes of each binding of WGSL with bounds checks: the checks hold for no shorter ones. `None` of other kernels, which
    /// state their needs.
    pub(crate) least_bytes: Option<Arc<[u32]>>,
}

/// The compiled kernels of a device.
pub struct KernelRegistry {
    raw: Arc<dyn RawDevice>,
    entries: RwLock<FxHashMap<Program, Entry>>,
    /// Kernels that programs registered.
    named: RwLock<BTreeMap<&'static str, NamedKernel>>,
    cache: Option<DiskCache>,
    compiled: AtomicU64,
    from_cache: AtomicU64,
    refused: AtomicU64,
}

/// Counts of a registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistryUsage {
    /// Kernels there are.
    pub kernels: usize,
    /// Kernels compiled from source.
    pub compiled: u64,
    /// Kernels whose translation was found on disk.
    pub from_cache: u64,
    /// Kernels that the driver refused, and whose portable form runs in their place.
    pub refused: u64,
    /// Files of the cache that were ignored, because they were truncated, damaged or of another format.
    pub ignored: u64,
}

impl KernelRegistry {
    pub(crate) fn new(raw: Arc<dyn RawDevice>, cache: Option<PathBuf>) -> KernelRegistry {
        let cache = cache.map(|directory| DiskCache::new(&directory, &raw.info().fingerprint));
        KernelRegistry {
            raw,
            entries: RwLock::default(),
            named: RwLock::default(),
            cache,
            compiled: AtomicU64::new(0),
            from_cache: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// The compiled form of a program.
    pub(crate) fn pipeline(&self, program: &Program) -> Result<Compiled> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let known = entries.get(program);
        if let Some(Ok(compiled)) = known.and_then(|entry| entry.get()) {
            return Ok(compiled.clone());
        }
        let known = known.cloned();
        drop(entries);
        let entry = known.unwrap_or_else(|| {
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(entries.entry(program.clone()).or_default())
        });
        let compiled = entry.get_or_init(|| self.compile_caught(program)).clone();
        compiled.map_err(|error| {
            // A failure may be temporary (out of memory): the next request compiles again. Another thread may have done so already.
            let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
            if entries.get(program).is_some_and(|current| Arc::ptr_eq(current, &entry)) {
                entries.remove(program);
            }
            Error::device(&self.raw.info().id, error)
        })
    }

    /// Compiles a program. A panic of the translator is an error: programs register texts that they did not write.
    fn compile_caught(&self, program: &Program) -> Result<Compiled, HalError> {
        let compile = || {
            let least_bytes = least_bytes(program)?;
            Ok(Compiled { pipeline: self.compile(program)?, least_bytes })
        };
        // Nothing is half-made: the entry stays empty until this returns.
        catch_unwind(AssertUnwindSafe(compile)).unwrap_or_else(|_| {
            let (label, detail) =
                (program.name().to_owned(), "the translator cannot take this text".to_owned());
            Err(HalError::Compile { label, detail })
        })
    }

    /// Compiles a program, or its portable form if the driver refuses it.
    fn compile(&self, program: &Program) -> Result<RawPipeline, HalError> {
        let compiled = self.compile_one(program);
        let portable = match program {
            Program::Wgsl(kernel) => kernel.portable(),
            Program::Native(_) => None,
        };
        match (compiled, portable) {
            (Err(HalError::Compile { .. }), Some(portable)) => {
                let pipeline = self.compile_one(&Program::Wgsl(portable))?;
                self.refused.fetch_add(1, Relaxed);
                Ok(pipeline)
            }
            (compiled, _) => compiled,
        }
    }

    fn compile_one(&self, program: &Program) -> Result<RawPipeline, HalError> {
        let cache = self.cache.as_ref().filter(|_| matches!(program, Program::Wgsl(_)));
        let place = cache.map(|cache| (cache, cache.key(program)));
        let make = |binary: Option<&[u8]>| {
            // SAFETY: lowering checks each launch against the program's needs (`record/needs.rs`). Native kernels and unchecked
            // WGSL stay inside their needs; other WGSL has bounds checks. `binary` is from `translate`, or the cache had it under
            // this program's key.
            unsafe { self.raw.compile(program.name(), program, binary) }
        };
        // A binary that is whole and yet refused (by a driver that changed, say) counts for nothing.
        let cached = place.as_ref().and_then(|(cache, key)| cache.load(key));
        if let Some(pipeline) = cached.and_then(|binary| make(Some(&binary)).ok()) {
            self.from_cache.fetch_add(1, Relaxed);
            return Ok(pipeline);
        }
        let binary = self.raw.translate(program)?;
        let pipeline = make(binary.as_deref())?;
        self.compiled.fetch_add(1, Relaxed);
        if let (Some((cache, key)), Some(binary)) = (&place, &binary) {
            cache.store(key, binary);
        }
        Ok(pipeline)
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
            // A thread that can't be had is done without.
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..threads).filter_map(spawn).collect();
            let own = work();
            // A thread that panicked leaves its program uncompiled, until the first use.
            let joined = others.into_iter().map(|other| other.join().unwrap_or(Ok(())));
            joined.chain([own]).collect()
        })
    }

    /// Registers a WGSL kernel of a program under its name, and compiles it. It runs with bounds checks. The error of a text that is
    /// broken names line and column; the same registration again changes nothing, and another under a name that is taken is an error.
    /// The CPU runs no text: see [`register_native`](KernelRegistry::register_native).
    pub fn register(&self, text: &KernelText<'_>) -> Result<NamedKernel> {
        let info = self.raw.info();
        if info.isa.is_some() {
            return Err(Error::device(&info.id, no_text(text.name)));
        }
        self.check_name(text)?;
        self.add(NamedKernel::of_text(info, text)?)
    }

    /// Returns what the entry point `entry` of a WGSL text declares, for programs that register texts that they do not know. `name` is that
    /// of the kernel in errors.
    pub fn interface(&self, name: &str, text: &str, entry: &str) -> Result<TextInterface> {
        NamedKernel::interface(self.raw.info(), [name, text, entry])
    }

    /// Registers a kernel in the Metal Shading Language, as [`NativeMsl`](silicide_hal::NativeMsl) says: binding `i` is `[[buffer(i)]]`, and
    /// the words of `var<immediate>` of a [`KernelText`] follow the bindings. Other devices than Metal's refuse it.
    ///
    /// # Safety
    ///
    /// The text keeps the contract of [`WgslKernel::unchecked`](silicide_hal::WgslKernel::unchecked) with `launch.needs`.
    pub unsafe fn register_msl(&self, text: &KernelText<'_>, launch: &MslLaunch<'_>) -> Result<NamedKernel> {
        let info = self.raw.info();
        if info.backend != Backend::Metal {
            let detail = "it is written in MSL, which Metal alone runs; register WGSL".to_owned();
            return Err(Error::device(&info.id, HalError::Compile { label: text.name.to_owned(), detail }));
        }
        self.check_name(text)?;
        // SAFETY: as the caller states (`# Safety`).
        self.add(unsafe { NamedKernel::of_msl(text, launch)? })
    }

    /// Registers a native function of the CPU under a name. Its parameter words are the parameter bytes, and its grid counts tiles.
    pub fn register_native(
        &self,
        name: &str,
        function: &'static NativeKernel,
        bindings: &[Access],
        param_bytes: usize,
    ) -> Result<NamedKernel> {
        self.add(NamedKernel::of_native(name, function, bindings, param_bytes)?)
    }

    /// Refuses a text whose name another kernel has, before anything of it is kept.
    fn check_name(&self, text: &KernelText<'_>) -> Result<()> {
        match self.names().get(text.name) {
            Some(known) if !known.is_of(text) => Err(self.name_taken(text.name)),
            _ => Ok(()),
        }
    }

    fn name_taken(&self, name: &str) -> Error {
        Error::KernelExists { device: self.raw.info().id.clone(), name: name.to_owned() }
    }

    /// Compiles a kernel and adds its name.
    fn add(&self, kernel: NamedKernel) -> Result<NamedKernel> {
        let exists = |known: Option<&NamedKernel>| match known {
            Some(known) if *known != kernel => Err(self.name_taken(kernel.name())),
            _ => Ok(()),
        };
        exists(self.names().get(kernel.name()))?;
        self.pipeline(kernel.program())?;
        let mut names = self.named.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have taken the name meanwhile.
        exists(names.get(kernel.name()))?;
        names.insert(kernel.name(), kernel);
        Ok(kernel)
    }

    fn names(&self) -> RwLockReadGuard<'_, BTreeMap<&'static str, NamedKernel>> {
        self.named.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a registered kernel.
    pub fn named(&self, name: &str) -> Result<NamedKernel> {
        let names = self.names();
        names.get(name).copied().ok_or_else(|| {
            let known: Vec<&str> = names.keys().copied().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::UnknownKernel { device: self.raw.info().id.clone(), name: name.to_owned(), known }
        })
    }

    /// Removes a name, and returns whether there was one. Calls that were made keep their kernel. Its compiled form stays as long as the
    /// device, and its text until the process ends: registering it again costs nothing.
    pub fn unregister(&self, name: &str) -> bool {
        self.named.write().unwrap_or_else(PoisonError::into_inner).remove(name).is_some()
    }

    /// Returns the counts so far.
    pub fn usage(&self) -> RegistryUsage {
        RegistryUsage {
            kernels: self.entries.read().unwrap_or_else(PoisonError::into_inner).len(),
            compiled: self.compiled.load(Relaxed),
            from_cache: self.from_cache.load(Relaxed),
            refused: self.refused.load(Relaxed),
            ignored: self.cache.as_ref().map_or(0, DiskCache::ignored),
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
            if let Some(Ok(compiled)) = entry.get() {
                // SAFETY: the pipeline was compiled for this map and is discarded once. `Shared::drop` in `device/mod.rs` has
                // finished the timeline before it drops the registry.
                unsafe { self.raw.discard(compiled.pipeline) };
            }
        }
    }
}

/// Returns the least bytes of each binding of WGSL with bounds checks, which are those of its portable form too.
#[cfg(any(feature = "vulkan", feature = "metal"))]
fn least_bytes(program: &Program) -> Result<Option<Arc<[u32]>>, HalError> {
    let Program::Wgsl(kernel) = program else { return Ok(None) };
    if !kernel.is_checked() {
        return Ok(None);
    }
    let mut least = silicide_hal::wgsl::least_bytes(kernel)?;
    if let Some(portable) = kernel.portable() {
        for (least, other) in least.iter_mut().zip(silicide_hal::wgsl::least_bytes(&portable)?) {
            *least = other.max(*least);
        }
    }
    Ok(Some(least.into()))
}

/// There are none: without a GPU backend nothing runs WGSL.
#[cfg(not(any(feature = "vulkan", feature = "metal")))]
fn least_bytes(_: &Program) -> Result<Option<Arc<[u32]>>, HalError> {
    Ok(None)
}
