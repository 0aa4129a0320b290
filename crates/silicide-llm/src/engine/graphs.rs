//! Captured passes of a model: made when first needed, shared by its sessions, few.
//!
//! A pass of one token is captured for a limit: the most positions it may ever see. Positions are read on the device, so one
//! capture serves all tokens up to the limit; limits are powers of two, so that short texts don't pay for long contexts and
//! no text needs more than a few captures.

use super::inputs::{Role, outline};
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

/// Captures a pass of `count` tokens, of which the last `outputs` give logits.
pub(super) fn capture(
    device: &Device,
    (model, decoder): (&Description, &Decoder),
    options: &CacheOptions,
    extents: (usize, usize, usize),
) -> Result<GraphExecutor> {
    capture_with(device, (model, decoder), options, extents, &silicide_ops::fuse::options())
}

/// [`capture`], with options of the graph.
pub(super) fn capture_with(
    device: &Device,
    (model, decoder): (&Description, &Decoder),
    options: &CacheOptions,
    (count, outputs, limit): (usize, usize, usize),
    how: &GraphOptions,
) -> Result<GraphExecutor> {
    let mut builder = GraphBuilder::new(device);
    let make = |role: Role, name: &'static str, info| match role {
        Role::Input => Ok(builder.parameter(name, info)?.1),
        Role::Cache => Ok(builder.input(name, info)),
    };
    let pass = outline(model, options, (count, outputs, limit), make)?;
    let logits = decoder.forward(&mut builder, &pass)?;
    let graph = builder.finish(&[&logits])?;
    Ok(GraphExecutor::new(graph, how)?)
}

/// Executors for passes of one token, by limit.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    single: Mutex<Vec<(usize, GraphExecutor)>>,
}

impl Graphs {
    /// The executor for one token up to a limit. Whoever comes first captures it.
    pub(super) fn single(
        &self,
        device: &Device,
        model: (&Description, &Decoder),
        options: &CacheOptions,
        limit: usize,
    ) -> Result<GraphExecutor> {
        let mut known = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, executor)) = known.iter().find(|(of, _)| *of == limit) {
            return Ok(executor.clone());
        }
        let executor = capture(device, model, options, (1, 1, limit))?;
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
