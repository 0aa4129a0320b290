//! The memory of a model: weights, KV cache and working memory, counted exactly before anything is loaded.

use super::passes::{PassClass, Passes, PlannedModel};
use crate::cache::CacheOptions;
use crate::error::{Error, Result};
use silicide_core::{Device, GraphExecutor};

/// The memory that a model needs on a device, and the memory that is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes that loading takes beside the weights: of the largest one that is there twice while it is repacked.
    pub loading: u64,
    /// Bytes of keys and values.
    pub cache: u64,
    /// Bytes of the arena that all passes of a session share, and of their inputs and launch words. Passes that return the logits
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

    /// Counts the memory of a planned model, from `passes`, which are captured for it. If it exceeds the `available` bytes, the error
    /// names the largest context that fits.
    pub(super) fn check(
        device: &Device,
        planned: PlannedModel<'_>,
        passes: &Passes,
        available: u64,
    ) -> Result<MemoryEstimate> {
        let PlannedModel { description, cache: options, .. } = planned;
        let count = |context: usize, passes: &Passes, ends: bool| -> Result<MemoryEstimate> {
            let options = CacheOptions { context, chunk: options.chunk.min(context), ..*options };
            let planned = PlannedModel { cache: &options, ..planned };
            let classes = PassClass::counted(&options);
            // Of all classes, these two have the largest arenas in most models: many rows, and one row.
            let classes = match (ends, classes.as_slice()) {
                (true, [first, .., last]) => vec![*first, *last],
                _ => classes,
            };
            let Working { arena, activations, workspaces } = working(device, planned, passes, &classes)?;
            let (weights, loading) = (description.bytes, description.loading_bytes);
            let cache = options.bytes(description)?;
            let process = 0;
            Ok(MemoryEstimate {
                weights,
                loading,
                cache,
                activations,
                arena,
                workspaces,
                process,
                available,
                context,
            })
        };
        let estimate = count(options.context, passes, false)?;
        if estimate.needed() <= available {
            return Ok(estimate);
        }
        // The largest context that fits: all parts grow with it. Two classes bound it from above, and all of them are counted near it.
        let fits = |context: usize, ends: bool| -> Result<bool> {
            Ok(context == 0 || count(context, &Passes::default(), ends)?.needed() <= available)
        };
        let most = largest(0, options.context, |context| fits(context, true))?;
        let (mut low, mut high) = (most, most + 1);
        while !fits(low, false)? {
            (low, high) = (low.saturating_sub(2 * (high - low)), low);
        }
        let fits = largest(low, high, |context| fits(context, false))?;
        Err(Error::DoesNotFit {
            device: device.info().id.clone(),
            needed: estimate.needed(),
            weights: estimate.weights,
            cache: estimate.cache,
            activations: estimate.activations + estimate.workspaces,
            context: options.context,
            available,
            fits,
            trained: description.config.trained_context,
        })
    }
}

/// Returns the largest number from `low`, which fits, to below `high`, which does not.
fn largest(mut low: usize, mut high: usize, fits: impl Fn(usize) -> Result<bool>) -> Result<usize> {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Returns the bytes that are available on a device for a model that has taken nothing yet.
pub(super) fn available(device: &Device) -> u64 {
    let usage = device.usage();
    let free = usage.limit.min(device.info().memory.available);
    free.saturating_sub(usage.total()) as u64
}

/// Memory that passes work in, in bytes.
#[derive(Clone, Copy)]
struct Working {
    arena: usize,
    activations: u64,
    workspaces: u64,
}

/// Counts what a session takes: the largest arena of `classes`, which passes of all classes share, and the parameters and launch
/// words of each. Smaller classes than those that are given take no more than the largest of them.
fn working(
    device: &Device,
    planned: PlannedModel<'_>,
    passes: &Passes,
    classes: &[PassClass],
) -> Result<Working> {
    let get = |class: PassClass| passes.get(device, planned, class);
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
    let executors = || captured.iter().map(|pass| &pass.executor);
    let arena = executors().map(GraphExecutor::arena_bytes).max().unwrap_or(0);
    let own: u64 = executors().map(|executor| executor.session_bytes() as u64).sum();
    let workspace = executors().map(|executor| executor.report().workspace).max().unwrap_or(0);
    let workspaces = device.info().workspace_bytes(workspace) as u64;
    Ok(Working { arena, activations: arena as u64 + own, workspaces })
}
