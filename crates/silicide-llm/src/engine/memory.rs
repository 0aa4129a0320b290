//! The memory of a model: weights, KV cache and working memory, counted exactly before anything is loaded.

use super::passes::{PassClass, Passes, PlannedModel};
use crate::cache::CacheOptions;
use crate::error::{Error, Result};
use crate::model::{LayerPlacement, TensorBytes};
use silicide_core::Device;

/// The memory that a model needs on a device, or on all of its devices together, and the memory that is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes that loading takes beside the weights: of those that are there twice while they are repacked together.
    pub loading: u64,
    /// Bytes of keys and values.
    pub cache: u64,
    /// Bytes of the arena that all passes of a session share, and of their inputs, launch words and staging memory. Passes that return the logits
    /// of many tokens take more ([`Model::logits_bytes`](crate::Model::logits_bytes)).
    pub activations: u64,
    /// Bytes of the arena alone.
    pub(super) arena: usize,
    /// Bytes of the workspaces that kernels use on the CPU: as much for each thread as the largest kernel declares.
    pub workspaces: u64,
    /// Bytes that the process had resident when the weights were not loaded yet: the program, its libraries, the tokenizer and the
    /// captured passes. [`MemoryEstimate::needed`] leaves them out, as they are not available any more. 0 where the system
    /// does not report them.
    pub process: u64,
    /// Bytes that are available on the device.
    pub available: u64,
    /// Tokens of the context.
    pub context: usize,
}

impl MemoryEstimate {
    /// Returns the most bytes at a time: those of the weights, and of what sessions take or of what loading took before them.
    pub fn needed(&self) -> u64 {
        self.weights + self.loading.max(self.cache + self.activations + self.workspaces)
    }

    /// Returns the most resident bytes of the process, for a model on the CPU: those of the process, and the bytes that are needed. They
    /// are resident once the context is full.
    pub fn peak(&self) -> u64 {
        self.process + self.needed()
    }
}

/// The bytes that are available on each device of a model.
#[derive(Clone, Debug)]
pub(super) struct AvailableMemory {
    bytes: Vec<u64>,
    /// Whether the first device has the memory of the host, where the CPU's is too.
    is_shared: bool,
}

impl AvailableMemory {
    /// Measures the memory of devices for a model that has taken nothing yet.
    pub(super) fn of(placement: &LayerPlacement) -> AvailableMemory {
        let devices = placement.devices();
        let available = |device: &Device| {
            let usage = device.usage();
            let free = usage.limit.min(device.info().memory.available);
            free.saturating_sub(usage.total()) as u64
        };
        let is_shared = devices.first().is_some_and(|device| device.info().features.unified_memory);
        AvailableMemory { bytes: devices.iter().map(available).collect(), is_shared }
    }

    /// Returns the sum of the estimates of a model's devices. Memory that they share is available once.
    pub(super) fn sum(&self, estimates: &[MemoryEstimate]) -> MemoryEstimate {
        let sum = |field: fn(&MemoryEstimate) -> u64| estimates.iter().map(field).sum();
        let bytes = self.bytes.iter().copied();
        MemoryEstimate {
            weights: sum(|of| of.weights),
            loading: sum(|of| of.loading),
            cache: sum(|of| of.cache),
            activations: sum(|of| of.activations),
            arena: estimates.iter().map(|of| of.arena).sum(),
            workspaces: sum(|of| of.workspaces),
            process: sum(|of| of.process),
            available: if self.is_shared { bytes.max().unwrap_or(0) } else { bytes.sum() },
            context: estimates.first().map_or(0, |of| of.context),
        }
    }

    /// Puts the bytes that are available into estimates.
    fn put(&self, estimates: &mut [MemoryEstimate]) {
        let mut others = 0;
        for (estimate, &bytes) in estimates.iter_mut().zip(&self.bytes) {
            estimate.available = bytes.saturating_sub(others);
            if self.is_shared {
                others += estimate.needed();
            }
        }
    }
}

/// Counts the memory of a planned model on each of its devices, from `passes`, which are captured for it.
pub(super) fn count(
    planned: PlannedModel<'_>,
    passes: &Passes,
    available: &AvailableMemory,
) -> Result<Vec<MemoryEstimate>> {
    count_classes(planned, passes, available, &PassClass::counted(planned.cache))
}

fn count_classes(
    planned: PlannedModel<'_>,
    passes: &Passes,
    available: &AvailableMemory,
    classes: &[PassClass],
) -> Result<Vec<MemoryEstimate>> {
    let PlannedModel { description, cache: options, .. } = planned;
    let working = working(planned, passes, classes)?;
    let caches = options.bytes(description)?;
    let parts = description.tensor_bytes.iter().zip(caches).zip(working);
    let estimate = |((tensors, cache), working): ((&TensorBytes, u64), Working)| {
        let Working { arena, activations, workspaces } = working;
        let TensorBytes { weights, loading } = *tensors;
        let context = options.context;
        let (process, available) = (0, 0);
        MemoryEstimate {
            weights,
            loading,
            cache,
            activations,
            arena,
            workspaces,
            process,
            available,
            context,
        }
    };
    let mut estimates: Vec<MemoryEstimate> = parts.map(estimate).collect();
    available.put(&mut estimates);
    Ok(estimates)
}

/// Counts the memory of a planned model as [`count`]. If it exceeds that of a device, the error names the largest context that fits,
/// which takes a search, if `is_last`.
pub(super) fn check(
    planned: PlannedModel<'_>,
    passes: &Passes,
    available: &AvailableMemory,
    is_last: bool,
) -> Result<Vec<MemoryEstimate>> {
    let PlannedModel { description, cache: options, .. } = planned;
    let estimates = count(planned, passes, available)?;
    let exceeded = |estimates: &[MemoryEstimate]| estimates.iter().position(|of| of.needed() > of.available);
    let Some(number) = exceeded(&estimates) else { return Ok(estimates) };
    let fits = |context: usize, ends: bool| -> Result<bool> {
        if context == 0 {
            return Ok(true);
        }
        let options = CacheOptions { context, chunk: options.chunk.min(context), ..*options };
        let planned = PlannedModel { cache: &options, ..planned };
        let classes = PassClass::counted(&options);
        // Of all classes, these two have the largest arenas in most models: many rows, and one row.
        let classes = match (ends, classes.as_slice()) {
            (true, [first, .., last]) => vec![*first, *last],
            _ => classes,
        };
        Ok(exceeded(&count_classes(planned, &Passes::default(), available, &classes)?).is_none())
    };
    let fits = if is_last { largest_context(options.context, fits)? } else { 0 };
    let device = description.placement.device(number)?.info().id.clone();
    let estimate =
        estimates.get(number).copied().ok_or_else(|| Error::missing("the estimate of a device"))?;
    Err(Error::DoesNotFit {
        device,
        needed: estimate.needed(),
        weights: estimate.weights,
        cache: estimate.cache,
        activations: estimate.activations + estimate.workspaces,
        context: options.context,
        available: estimate.available,
        fits,
        trained: description.config.trained_context,
    })
}

/// Returns the largest context below `context` that fits: all parts grow with it. `fits` is called with whether two classes of passes
/// are enough, which bound it from above; all of them are counted near it.
fn largest_context(context: usize, fits: impl Fn(usize, bool) -> Result<bool>) -> Result<usize> {
    let most = largest(0, context, |context| fits(context, true))?;
    let (mut low, mut high) = (most, most + 1);
    while !fits(low, false)? {
        (low, high) = (low.saturating_sub(2 * (high - low)), low);
    }
    largest(low, high, |context| fits(context, false))
}

/// Returns the largest number from `low`, which fits, to below `high`, which does not.
fn largest(mut low: usize, mut high: usize, fits: impl Fn(usize) -> Result<bool>) -> Result<usize> {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Memory that passes work in, in bytes.
#[derive(Clone, Copy)]
struct Working {
    arena: usize,
    activations: u64,
    workspaces: u64,
}

/// Counts what a session takes on each device: the largest arena of `classes`, which passes of all classes share, and the parameters,
/// launch words and staging memory of each. Smaller classes than those that are given take no more than the largest of them.
fn working(planned: PlannedModel<'_>, passes: &Passes, classes: &[PassClass]) -> Result<Vec<Working>> {
    let get = |class: PassClass| passes.get(planned, class);
    let captured = std::thread::scope(|scope| {
        let get = &get;
        let capture = |class: PassClass| move || get(class);
        let (last, others) = classes.split_last().unzip();
        // Where a thread can't be had, the class is captured below.
        let others: Vec<_> = others
            .unwrap_or_default()
            .iter()
            .filter_map(|class| std::thread::Builder::new().spawn_scoped(scope, capture(*class)).ok())
            .collect();
        let _last = last.map(|class| capture(*class)());
        for thread in others {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        classes.iter().map(|class| get(*class)).collect::<Result<Vec<_>>>()
    })?;
    let of_device = |(number, device): (usize, &Device)| {
        let arena = captured.iter().map(|pass| pass.arena_bytes(number)).max().unwrap_or(0);
        let own: u64 = captured.iter().map(|pass| pass.session_bytes(number) as u64).sum();
        let workspace = captured.iter().map(|pass| pass.workspace(number)).max().unwrap_or(0);
        let workspaces = device.info().workspace_bytes(workspace) as u64;
        Working { arena, activations: arena as u64 + own, workspaces }
    };
    Ok(planned.description.placement.devices().iter().enumerate().map(of_device).collect())
}
