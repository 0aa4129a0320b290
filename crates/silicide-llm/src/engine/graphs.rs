//! Captured passes of a model. They are made when first needed, and its sessions share them.
//!
//! A pass of one token is captured for a limit: the most positions it may ever see. Positions are read on the device, so one
//! capture serves all tokens up to the limit; limits are powers of two, so that short texts don't pay for long contexts and
//! no text needs more than a few captures.

use super::inputs::{InputRole, PassExtents, outline};
use crate::cache::CacheOptions;
use crate::error::Result;
use crate::model::{Decoder, Description};
use silicide_core::{Device, GraphBuilder, GraphExecutor, GraphOptions};
use std::sync::{Mutex, PoisonError};

/// The smallest limit.
const SMALLEST: usize = 256;

/// The limit that a pass up to position `end` is captured for.
pub(super) fn limit_of(end: usize, context: usize) -> usize {
    end.max(SMALLEST).checked_next_power_of_two().unwrap_or(context).min(context)
}

/// A model and the shape of its cache, from which passes are planned and captured.
#[derive(Clone, Copy)]
pub(super) struct PlannedModel<'a> {
    pub(super) description: &'a Description,
    pub(super) decoder: &'a Decoder,
    pub(super) cache: &'a CacheOptions,
}

/// Captures a pass of the given extents, with the usual fusions.
pub(super) fn capture(
    device: &Device,
    model: PlannedModel<'_>,
    extents: PassExtents,
) -> Result<GraphExecutor> {
    capture_with(device, model, extents, &silicide_ops::fuse::options())
}

/// [`capture`], with options of the graph.
pub(super) fn capture_with(
    device: &Device,
    model: PlannedModel<'_>,
    extents: PassExtents,
    options: &GraphOptions,
) -> Result<GraphExecutor> {
    let mut builder = GraphBuilder::new(device);
    let make = |role: InputRole, name: &'static str, info| match role {
        InputRole::Input => Ok(builder.parameter(name, info)?.1),
        InputRole::Cache => Ok(builder.input(name, info)),
    };
    let pass = outline(model.description, model.cache, extents, make)?;
    let logits = model.decoder.forward(&mut builder, &pass)?;
    let graph = builder.finish(&[&logits])?;
    Ok(GraphExecutor::new(graph, options)?)
}

/// Executors for passes of one token, by limit.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    single: Mutex<Vec<(usize, GraphExecutor)>>,
}

impl Graphs {
    /// Returns the executor for one token up to position `limit`. The first call for a limit captures it.
    pub(super) fn single(
        &self,
        device: &Device,
        model: PlannedModel<'_>,
        limit: usize,
    ) -> Result<GraphExecutor> {
        let mut known = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, executor)) = known.iter().find(|(of, _)| *of == limit) {
            return Ok(executor.clone());
        }
        let executor = capture(device, model, PassExtents { tokens: 1, outputs: 1, limit })?;
        known.push((limit, executor.clone()));
        Ok(executor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_few_and_enough() {
        for context in [1, 100, 256, 1000, 4096] {
            let limits: Vec<usize> = (1..=context).map(|end| limit_of(end, context)).collect();
            assert!((1..=context).zip(&limits).all(|(end, limit)| (end..=context).contains(limit)));
            let mut different = limits.clone();
            different.dedup();
            assert!(different.len() <= 5, "{context}: {different:?}");
        }
    }
}
