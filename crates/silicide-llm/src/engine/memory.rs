//! The memory of a model: weights, KV cache and working memory, counted exactly before anything is loaded.

use super::passes::{PassClass, Passes, PlannedModel};
use crate::cache::CacheOptions;
use crate::error::{Error, Result};
use silicide_core::Device;

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
    /// Bytes of the arena that all passes of a session share, and of their inputs.
    pub activations: u64,
    /// Bytes of the arena alone.
    pub(super) arena: usize,
    /// Bytes of the workspaces that kernels use on the CPU: as much for each thread as the largest kernel declares.
    pub workspaces: u64,
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

    /// Counts the memory of a planned model, from `passes`, which are captured for it. If it exceeds the `available` bytes, the error names the largest context that fits.
    pub(super) fn check(
        device: &Device,
        planned: PlannedModel<'_>,
        passes: &Passes,
        available: u64,
    ) -> Result<MemoryEstimate> {
        let PlannedModel { description, cache: options, .. } = planned;
        let count = |context: usize, passes: &Passes| -> Result<MemoryEstimate> {
            let options = CacheOptions { context, chunk: options.chunk.min(context), ..*options };
            let planned = PlannedModel { cache: &options, ..planned };
            let Working { arena, activations, workspaces } = working(device, planned, passes)?;
            let (weights, loading) = (description.bytes, description.loading_bytes);
            let cache = options.bytes(description)?;
            Ok(MemoryEstimate { weights, loading, cache, activations, arena, workspaces, available, context })
        };
        let estimate = count(options.context, passes)?;
        if estimate.needed() <= available {
            return Ok(estimate);
        }
        // The largest context that fits: all parts grow with it.
        let (mut fits, mut too_large) = (0, options.context);
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            if count(middle, &Passes::default())?.needed() <= available {
                fits = middle
            } else {
                too_large = middle
            }
        }
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

/// Counts what a session takes: the arena of the largest passes, in which all others fit, and parameters and launch words of
/// each class.
fn working(device: &Device, planned: PlannedModel<'_>, passes: &Passes) -> Result<Working> {
    let executor = passes.get(device, planned, PassClass::largest(planned.cache))?.executor;
    let arena = executor.arena_bytes();
    let own = executor.session_bytes() as u64;
    // Smaller classes have fewer parameters and as many launches.
    let classes = PassClass::smaller(planned.cache);
    let parameters = executor.graph().parameter_bytes() as u64;
    let launches = own.saturating_sub(parameters);
    let rows: u64 = classes.iter().map(|class| class.rows as u64).sum();
    let others = parameters * rows / (planned.cache.chunk as u64).max(1) + launches * classes.len() as u64;
    let workspaces = device.info().workspace_bytes(executor.report().workspace) as u64;
    Ok(Working { arena, activations: arena as u64 + own + others, workspaces })
}
