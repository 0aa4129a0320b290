//! A captured pass over the memory of a session: its segments one after the other, and the copies between them.

use super::inputs::{InputSink, PassInputs, Span};
use super::passes::{CapturedPass, PassClass};
use crate::cache::KvCache;
use crate::error::{Error, Result};
use crate::model::{Description, PassExtent, SegmentInput};
use silicide_core::profile::ProfiledCall;
use silicide_core::{
    Buffer, BufferOptions, CommandEncoder, GraphArena, GraphSession, MemoryKind, Purpose, Submission,
};
use silicide_quant::{DType, Element};
use std::sync::Arc;

/// A captured pass over a session's cache.
#[derive(Debug)]
pub(super) struct BoundPass {
    captured: Arc<CapturedPass>,
    graphs: BoundSegments,
    inputs: PassInputs,
    /// The destinations of [`CapturedPass::transfers`].
    staging: Vec<Buffer>,
}

/// The segments of a pass over memory, and the extents that were set.
#[derive(Debug)]
struct BoundSegments {
    captured: Arc<CapturedPass>,
    sessions: Vec<GraphSession>,
    /// By number of [`PassExtent`].
    extents: Vec<usize>,
}

impl BoundPass {
    /// Binds a captured pass to a cache, and to an arena of each device.
    pub(super) fn new(
        captured: &Arc<CapturedPass>,
        model: &Description,
        arenas: &[Option<GraphArena>],
        cache: &KvCache,
    ) -> Result<BoundPass> {
        let staging = staging(captured, model)?;
        let caches: Vec<&Buffer> = cache.buffers().collect();
        let sessions = captured.segments.iter().map(|segment| {
            let missing = || Error::missing("the arena or an input of a segment");
            let input = |input: &SegmentInput| match input {
                SegmentInput::Pass(number) => caches.get(*number).copied(),
                SegmentInput::Transfer(number) => staging.get(*number),
            };
            let inputs: Option<Vec<&Buffer>> = segment.inputs.iter().map(input).collect();
            let arena = arenas.get(segment.device).and_then(Option::as_ref).ok_or_else(missing)?;
            Ok(segment.executor.session_in(arena, &inputs.ok_or_else(missing)?)?)
        });
        let sessions = sessions.collect::<Result<_>>()?;
        let inputs = PassInputs::new(model, &captured.parameters)?;
        let graphs = BoundSegments { captured: Arc::clone(captured), sessions, extents: Vec::new() };
        Ok(BoundPass { captured: Arc::clone(captured), graphs, inputs, staging })
    }

    /// The class of the pass.
    pub(super) fn class(&self) -> PassClass {
        self.captured.class
    }

    /// Sets the inputs of the pass over `span`.
    pub(super) fn set(&mut self, model: &Description, span: &Span<'_>) -> Result<()> {
        self.inputs.set(model, &self.captured, span, &mut self.graphs)
    }

    /// Runs the pass over the values that were set. Segments on the CPU wait for what they read from another device.
    pub(super) fn replay(&mut self) -> Result<()> {
        for number in 0..self.graphs.sessions.len() {
            let _submission = self.replay_segment(number)?;
            self.transfer(number)?;
        }
        Ok(())
    }

    /// Runs segment `number`.
    pub(super) fn replay_segment(&mut self, number: usize) -> Result<Submission> {
        let session = self.graphs.sessions.get_mut(number);
        let session = session.ok_or_else(|| Error::missing("a segment of a pass"))?;
        Ok(session.replay()?)
    }

    /// Returns the calls of segment `number` at its present extents, for profiles.
    pub(super) fn calls(&self, number: usize) -> Result<Vec<ProfiledCall>> {
        Ok(self.graphs.sessions.get(number).map(GraphSession::calls).transpose()?.unwrap_or_default())
    }

    /// Copies the live rows that later segments read of what segment `number` computed.
    pub(super) fn transfer(&self, number: usize) -> Result<()> {
        for (transfer, to) in self.captured.transfers.iter().zip(&self.staging) {
            if transfer.of.from != number {
                continue;
            }
            let output =
                self.graphs.sessions.get(number).and_then(|session| session.output(transfer.of.output));
            let output = output.ok_or_else(|| Error::missing("the output of a segment"))?;
            let planned = transfer.of.info.elements();
            let live = transfer.of.extent.and_then(|extent| {
                let most = self.captured.extent_most(extent, number)?;
                Some(planned / most.max(1) * self.graphs.extents.get(extent.0)?)
            });
            let live = 0..live.unwrap_or(planned);
            let (from, to) = (output.slice(live.clone())?, to.slice(live)?);
            if from.device().is_same(to.device()) {
                // In order with the other work of the device: nothing waits.
                let mut encoder = CommandEncoder::new(from.device());
                encoder.copy(&from, &to)?;
                let _submission = encoder.submit()?;
            } else {
                to.copy_from(&from)?;
            }
        }
        Ok(())
    }

    /// The logits of the last pass, `[outputs, vocabulary]`; those behind the outputs that were set are unspecified.
    pub(super) fn logits(&self) -> Option<Buffer> {
        let (segment, output) = self.captured.logits;
        self.graphs.sessions.get(segment)?.output(output).cloned()
    }
}

/// Allocates the staging memory of a pass, and returns the destination of each transfer.
fn staging(captured: &CapturedPass, model: &Description) -> Result<Vec<Buffer>> {
    let options =
        BufferOptions::default().purpose(Purpose::Activations).kind(MemoryKind::Shared).zeroed(false);
    let slots = captured.staging.iter().map(|slot| {
        let device = model.placement.device(slot.device)?;
        Ok(Buffer::with(device, DType::U8, [slot.bytes], &options)?)
    });
    let slots = slots.collect::<Result<Vec<Buffer>>>()?;
    let destination = |transfer: &super::passes::CapturedTransfer| {
        let info = transfer.of.info;
        let slot = slots.get(transfer.slot).ok_or_else(|| Error::missing("staging memory"))?;
        Ok(slot.view(0, info.bytes())?.reinterpret(info.dtype)?.reshape(info.shape)?)
    };
    captured.transfers.iter().map(destination).collect()
}

impl InputSink for BoundSegments {
    fn set_extent(&mut self, extent: PassExtent, rows: usize) -> Result<()> {
        if self.extents.len() <= extent.0 {
            self.extents.resize(extent.0 + 1, 1);
        }
        if let Some(current) = self.extents.get_mut(extent.0) {
            *current = rows;
        }
        for (session, segment) in self.sessions.iter_mut().zip(&self.captured.segments) {
            if let Some(&extent) = segment.extents.get(extent.0) {
                session.set_extent(extent, rows)?;
            }
        }
        Ok(())
    }

    fn set<T: Element>(&mut self, parameter: usize, values: &[T]) -> Result<()> {
        for (session, segment) in self.sessions.iter_mut().zip(&self.captured.segments) {
            if let Some(&Some(parameter)) = segment.parameters.get(parameter) {
                session.set(parameter, values)?;
            }
        }
        Ok(())
    }
}
