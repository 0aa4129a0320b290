//! The memory of a model: weights, KV cache and working memory, counted exactly before anything is loaded.

use super::graphs::{PlannedModel, capture};
use super::inputs::{InputRole, PassExtents, outline};
use super::options::ModelOptions;
use crate::cache::CacheOptions;
use crate::error::{Error, Result};
use silicide_core::kernel::TensorInfo;
use silicide_core::{Device, Estimate, Estimated};

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
    /// Bytes of inputs, outputs and scratch of a pass of the largest size, and the arena of a pass of one token.
    pub activations: u64,
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

    /// Counts the memory of a planned model. If it exceeds what the device has, the error names the largest context that fits.
    pub(super) fn check(
        device: &Device,
        planned: PlannedModel<'_>,
        engine: &ModelOptions,
    ) -> Result<MemoryEstimate> {
        let PlannedModel { description, cache: options, .. } = planned;
        let usage = device.usage();
        let free = usage.limit.min(device.info().memory.available);
        let available = free.saturating_sub(usage.total()) as u64;
        let count = |context: usize| -> Result<MemoryEstimate> {
            let options = CacheOptions { context, ..*options };
            let planned = PlannedModel { cache: &options, ..planned };
            let Working { activations, workspaces } = working(device, planned, engine)?;
            let (weights, loading) = (description.bytes, description.loading_bytes);
            let cache = options.bytes(description)?;
            Ok(MemoryEstimate { weights, loading, cache, activations, workspaces, available, context })
        };
        let estimate = count(options.context)?;
        if estimate.needed() <= available {
            return Ok(estimate);
        }
        // The largest context that fits: all parts grow with it.
        let (mut fits, mut too_large) = (0, options.context);
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            if count(middle)?.needed() <= available { fits = middle } else { too_large = middle }
        }
        let advice = match fits {
            0 => "not even one token fits: take a smaller model or a smaller format".to_owned(),
            _ if fits > description.config.trained_context => format!(
                "the model was trained on {trained} tokens, which fit: give -c {trained} (the largest context that fits is {fits})",
                trained = description.config.trained_context
            ),
            _ => format!(
                "the largest context that fits is {fits}: give -c {fits}, or a smaller cache type (-ctk, -ctv)"
            ),
        };
        Err(Error::DoesNotFit {
            device: device.info().id.clone(),
            needed: estimate.needed(),
            weights: estimate.weights,
            cache: estimate.cache,
            activations: estimate.activations + estimate.workspaces,
            context: options.context,
            available,
            advice,
        })
    }
}

/// Memory that passes work in, in bytes.
#[derive(Clone, Copy)]
struct Working {
    activations: u64,
    workspaces: u64,
}

/// Counts a pass of the largest size, as it is recorded, and one of a single token, as it is captured.
fn working(device: &Device, planned: PlannedModel<'_>, engine: &ModelOptions) -> Result<Working> {
    let PlannedModel { description, decoder, cache: options } = planned;
    let (chunk, context) = (options.chunk.min(options.context).max(1), options.context);
    let count = |tokens: usize| -> Result<Working> {
        let mut inputs = 0;
        let outside = |role: InputRole, _: &'static str, info: TensorInfo| {
            inputs += if role == InputRole::Input { info.bytes() as u64 } else { 0 };
            Ok(Estimated::outside(info))
        };
        let pass =
            outline(description, options, PassExtents { tokens, outputs: 1, limit: context }, outside)?;
        let mut estimate = Estimate::new(device);
        drop(decoder.forward(&mut estimate, &pass)?);
        let (bytes, workspaces) = (estimate.bytes() as u64, estimate.workspace_bytes() as u64);
        Ok(Working { activations: inputs + bytes, workspaces })
    };
    let single = match engine.graphs {
        true => {
            let captured = capture(device, planned, PassExtents { tokens: 1, outputs: 1, limit: context })?;
            let activations = (captured.arena_bytes() + captured.graph().parameter_bytes()) as u64;
            let workspaces = device.info().workspace_bytes(captured.report().workspace) as u64;
            Working { activations, workspaces }
        }
        false if chunk > 1 => count(1)?,
        false => Working { activations: 0, workspaces: 0 },
    };
    let largest = count(chunk)?;
    Ok(Working {
        activations: largest.activations + single.activations,
        workspaces: largest.workspaces.max(single.workspaces),
    })
}
