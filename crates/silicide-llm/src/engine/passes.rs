//! Captured passes of a model. They are made when first needed, and its sessions share them.
//!
//! A pass is captured for a *class*: the most rows and logits that it may have. Rows, logits and items of attention's work lists are live
//! extents, and positions are read on the device. So one capture serves all passes of its class, at any depth of the context.

use super::inputs::{PassParameters, Span, declare};
use crate::cache::CacheOptions;
use crate::error::Result;
use crate::model::{
    Decoder, Description, PassExtent, PassRecorder, RecordedPass, RecordedSegment, SegmentInput, Transfer,
};
use silicide_core::memory::ALIGNMENT;
use silicide_core::{GraphExecutor, LiveExtent, Parameter};
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

/// A captured pass: a graph for each segment, and the values that later segments read.
#[derive(Debug)]
pub(super) struct CapturedPass {
    pub(super) class: PassClass,
    pub(super) segments: Vec<CapturedSegment>,
    pub(super) transfers: Vec<CapturedTransfer>,
    /// Staging memory of the transfers: the number of the device, and bytes.
    pub(super) staging: Vec<StagingSlot>,
    /// The segment that computes the logits, and the number of its output.
    pub(super) logits: (usize, usize),
    pub(super) parameters: PassParameters,
}

/// A part of a pass that runs on one device, without the host.
#[derive(Debug)]
pub(super) struct CapturedSegment {
    pub(super) executor: GraphExecutor,
    /// The number of the device.
    pub(super) device: usize,
    /// The extents of the pass.
    pub(super) extents: Vec<LiveExtent>,
    /// The parameters of the pass that the segment has.
    pub(super) parameters: Vec<Option<Parameter>>,
    /// The inputs of the graph.
    pub(super) inputs: Vec<SegmentInput>,
}

/// A value that is copied after segment `from` to memory of another graph.
#[derive(Debug)]
pub(super) struct CapturedTransfer {
    pub(super) of: Transfer,
    /// The number of its staging memory.
    pub(super) slot: usize,
}

/// Memory on a device for values that other segments computed.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagingSlot {
    /// The number of the device.
    pub(super) device: usize,
    pub(super) bytes: usize,
    /// The last segment that reads the value that is there now.
    last: usize,
}

impl CapturedPass {
    /// Captures a pass, with the usual fusions.
    pub(super) fn new(model: PlannedModel<'_>, class: PassClass) -> Result<CapturedPass> {
        let placement = &model.description.placement;
        let first = placement.device(placement.of_layer(0))?;
        let mut recorder = PassRecorder::new(first);
        let (parameters, inputs) = declare(&mut recorder, model.description, model.cache, class)?;
        let logits = model.decoder.forward(&mut recorder, &inputs)?;
        let RecordedPass { segments, transfers, result } = recorder.finish(&logits)?;
        let segments = segments.into_iter().map(|RecordedSegment { graph, extents, parameters, inputs }| {
            let device = placement.number_of(graph.device())?;
            let executor = GraphExecutor::new(graph, &fuse::options().mark_ops(class.is_marked))?;
            Ok(CapturedSegment { executor, device, extents, parameters, inputs })
        });
        let segments = segments.collect::<Result<_>>()?;
        let mut staging = Vec::new();
        let transfers = transfers.into_iter().map(|of| {
            let slot = staging_slot(&mut staging, &of, placement.number_of(&of.to)?);
            Ok(CapturedTransfer { of, slot })
        });
        let transfers = transfers.collect::<Result<_>>()?;
        Ok(CapturedPass { class, segments, transfers, staging, logits: result, parameters })
    }

    /// Returns the bytes of the arena that the pass needs on device number `device`.
    pub(super) fn arena_bytes(&self, device: usize) -> usize {
        self.on(device).map(|segment| segment.executor.arena_bytes()).max().unwrap_or(0)
    }

    /// Returns the bytes that the pass takes in a session on device number `device`, besides the arena: parameters, launch words and
    /// staging memory.
    pub(super) fn session_bytes(&self, device: usize) -> usize {
        let own: usize = self.on(device).map(|segment| segment.executor.session_bytes()).sum();
        let staging = self.staging.iter().filter(|slot| slot.device == device);
        own + staging.map(|slot| slot.bytes.next_multiple_of(ALIGNMENT)).sum::<usize>()
    }

    /// Returns the bytes of the largest workspace of a kernel on device number `device`.
    pub(super) fn workspace(&self, device: usize) -> usize {
        self.on(device).map(|segment| segment.executor.report().workspace).max().unwrap_or(0)
    }

    /// Returns the largest value of an extent, in segment `number`.
    pub(super) fn extent_most(&self, extent: PassExtent, number: usize) -> Option<usize> {
        let segment = self.segments.get(number)?;
        segment.executor.graph().extents().nth(extent.0).map(|(_, _, most)| most)
    }

    fn on(&self, device: usize) -> impl Iterator<Item = &CapturedSegment> {
        self.segments.iter().filter(move |segment| segment.device == device)
    }
}

/// Returns the number of staging memory for a transfer to device number `device`. Transfers come in the order of their reading
/// segments; memory whose last reader is not after the transfer's own segment is used again.
fn staging_slot(slots: &mut Vec<StagingSlot>, transfer: &Transfer, device: usize) -> usize {
    let bytes = transfer.info.bytes();
    let free = |slot: &StagingSlot| slot.device == device && slot.last <= transfer.from;
    let candidates = slots.iter().enumerate().filter(|(_, slot)| free(slot));
    let closest = candidates.min_by_key(|(_, slot)| slot.bytes.abs_diff(bytes)).map(|(number, _)| number);
    let number = closest.unwrap_or(slots.len());
    if number == slots.len() {
        slots.push(StagingSlot { device, bytes: 0, last: 0 });
    }
    if let Some(slot) = slots.get_mut(number) {
        (slot.bytes, slot.last) = (slot.bytes.max(bytes), transfer.last);
    }
    number
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
    pass: OnceLock<Arc<CapturedPass>>,
}

impl Passes {
    /// Returns the pass of a class. The first call for a class captures it.
    pub(super) fn get(&self, model: PlannedModel<'_>, class: PassClass) -> Result<Arc<CapturedPass>> {
        let slot = self.slot(class);
        let _capturing = match slot.pass.get() {
            Some(pass) => return Ok(Arc::clone(pass)),
            None => slot.capturing.lock().unwrap_or_else(PoisonError::into_inner),
        };
        // Another session may have captured it meanwhile.
        if let Some(pass) = slot.pass.get() {
            return Ok(Arc::clone(pass));
        }
        let pass = Arc::new(CapturedPass::new(model, class)?);
        Ok(Arc::clone(slot.pass.get_or_init(|| pass)))
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
