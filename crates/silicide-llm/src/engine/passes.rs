//! Captured passes of a model. They are made when first needed, and its sessions share them.
//!
//! A pass is captured for a *class*: the most rows and logits that it may have. Rows, logits and items of attention's work lists are live
//! extents, and positions are read on the device. So one capture serves all passes of its class, at any depth of the context.

use super::inputs::{PassParameters, Span, declare};
use crate::cache::CacheOptions;
use crate::error::Result;
use crate::model::{Decoder, Description};
use silicide_core::{Device, GraphBuilder, GraphExecutor};
use silicide_ops::fuse;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The most rows of each class; the largest class has those of the largest pass. Kernels of products change at 16 rows.
const ROWS: [usize; 4] = [1, 4, 16, 64];

/// The most bytes of logits that one pass may compute.
const LOGIT_BYTES: usize = 32 << 20;

/// The class of a pass: the extents that it is captured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PassClass {
    /// The most rows.
    pub(super) rows: usize,
    /// The most rows with logits.
    pub(super) outputs: usize,
    /// Whether marks stand between ops, which then run one after the other.
    pub(super) is_marked: bool,
}

impl PassClass {
    /// The class of a pass over `span`.
    pub(super) fn of(span: &Span<'_>, model: &Description, options: &CacheOptions) -> PassClass {
        let rows = rows_of(span.tokens.len(), options.chunk);
        let outputs = if span.outputs <= 1 { 1 } else { rows.min(most_outputs(model, options)) };
        PassClass::new(rows, outputs)
    }

    /// One class for each number of rows: no pass with one row of logits needs more memory.
    pub(super) fn counted(options: &CacheOptions) -> Vec<PassClass> {
        let smaller = ROWS.into_iter().filter(|&rows| rows < options.chunk);
        let rows = smaller.chain([rows_of(options.chunk, options.chunk)]);
        rows.map(|rows| PassClass::new(rows, 1)).collect()
    }

    /// The classes of short prompts and of the tokens that follow them.
    pub(super) fn usual(options: &CacheOptions) -> Vec<PassClass> {
        let mut rows = [64, 16, 1].map(|rows| rows_of(rows, options.chunk)).to_vec();
        rows.dedup();
        rows.into_iter().map(|rows| PassClass::new(rows, 1)).collect()
    }

    /// The classes of passes that return the logits of many tokens: of the largest, and of the rows that are left after those.
    pub(super) fn with_many_outputs(model: &Description, options: &CacheOptions) -> Vec<PassClass> {
        let most = most_outputs(model, options);
        let mut rows = ROWS.map(|rows| rows_of(rows.min(most), options.chunk)).to_vec();
        rows.push(rows_of(most, options.chunk));
        rows.dedup();
        // Passes with one row of logits are of the usual classes.
        let classes = rows.into_iter().map(|rows| PassClass::new(rows, most));
        classes.filter(|class| class.outputs > 1).collect()
    }

    /// The class of passes of up to `rows` rows, of which up to `outputs` have logits.
    pub(super) fn new(rows: usize, outputs: usize) -> PassClass {
        PassClass { rows, outputs: outputs.min(rows), is_marked: false }
    }

    /// The same with marks.
    pub(super) fn marked(self) -> PassClass {
        PassClass { is_marked: true, ..self }
    }
}

/// The most rows with logits of one pass.
pub(super) fn most_outputs(model: &Description, options: &CacheOptions) -> usize {
    (LOGIT_BYTES / 4 / model.vocabulary.max(1)).clamp(1, options.chunk)
}

/// The rows that a pass of `rows` rows is captured for, of at most `chunk`.
fn rows_of(rows: usize, chunk: usize) -> usize {
    ROWS.into_iter().find(|&most| rows <= most).unwrap_or(chunk).min(chunk)
}

/// A model and the shape of its cache, from which passes are captured.
#[derive(Clone, Copy)]
pub(super) struct PlannedModel<'a> {
    pub(super) description: &'a Description,
    pub(super) decoder: &'a dyn Decoder,
    pub(super) cache: &'a CacheOptions,
}

/// A captured pass.
#[derive(Clone, Debug)]
pub(super) struct CapturedPass {
    pub(super) class: PassClass,
    pub(super) executor: GraphExecutor,
    pub(super) parameters: PassParameters,
}

impl CapturedPass {
    /// Captures a pass, with the usual fusions.
    pub(super) fn new(device: &Device, model: PlannedModel<'_>, class: PassClass) -> Result<CapturedPass> {
        let mut builder = GraphBuilder::new(device);
        let (parameters, inputs) = declare(&mut builder, model.description, model.cache, class)?;
        let logits = model.decoder.forward(&mut builder, &inputs)?;
        let graph = builder.finish(&[&logits])?;
        let executor = GraphExecutor::new(graph, &fuse::options().mark_ops(class.is_marked))?;
        Ok(CapturedPass { class, executor, parameters })
    }
}

/// The captured passes of a model, by class.
#[derive(Debug, Default)]
pub(super) struct Passes {
    known: Mutex<Vec<Arc<ClassSlot>>>,
}

/// The captured pass of a class.
#[derive(Debug)]
struct ClassSlot {
    class: PassClass,
    /// Held during the capture. Sessions that need other classes do not wait for it.
    capturing: Mutex<()>,
    pass: OnceLock<CapturedPass>,
}

impl Passes {
    /// Returns the pass of a class. The first call for a class captures it.
    pub(super) fn get(
        &self,
        device: &Device,
        model: PlannedModel<'_>,
        class: PassClass,
    ) -> Result<CapturedPass> {
        let slot = self.slot(class);
        let _capturing = match slot.pass.get() {
            Some(pass) => return Ok(pass.clone()),
            None => slot.capturing.lock().unwrap_or_else(PoisonError::into_inner),
        };
        // Another session may have captured it meanwhile.
        if let Some(pass) = slot.pass.get() {
            return Ok(pass.clone());
        }
        let pass = CapturedPass::new(device, model, class)?;
        Ok(slot.pass.get_or_init(|| pass).clone())
    }

    fn slot(&self, class: PassClass) -> Arc<ClassSlot> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = known.iter().find(|slot| slot.class == class) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(ClassSlot { class, capturing: Mutex::new(()), pass: OnceLock::new() });
        known.push(Arc::clone(&slot));
        slot
    }

    /// How many passes were captured.
    pub(super) fn count(&self) -> usize {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter(|slot| slot.pass.get().is_some()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_rows() {
        for chunk in [1, 3, 16, 20, 64, 65, 512, 2048] {
            let classes: Vec<usize> = (1..=chunk).map(|rows| rows_of(rows, chunk)).collect();
            assert!((1..=chunk).zip(&classes).all(|(rows, class)| (rows..=chunk).contains(class)));
            let mut different = classes;
            different.dedup();
            assert!(different.len() <= 5, "{chunk}: {different:?}");
        }
    }
}
