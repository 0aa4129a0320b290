//! Prompts in several passes, whose next pass is recorded while this one runs: an encoding worker submits what was recorded, and
//! inputs come in two sets, so that one can be filled while the device reads the other.

use super::inputs::Inputs;
use crate::error::Result;
use silicide::{CommandEncoder, EncodingWorker, Pending};

/// The worker and the passes that it may still be at.
#[derive(Debug)]
pub(super) struct Ahead {
    worker: EncodingWorker,
    /// The last two passes; the older one stands at `next`.
    passes: [Option<(Inputs, Option<Pending>)>; 2],
    next: usize,
}

impl Ahead {
    /// A worker with nothing to do.
    pub(super) fn new() -> Result<Ahead> {
        Ok(Ahead { worker: EncodingWorker::new(1)?, passes: [None, None], next: 0 })
    }

    /// Inputs of an earlier pass that is submitted, if there was one.
    pub(super) fn take(&mut self) -> Result<Option<Inputs>> {
        let Some((inputs, pending)) = self.passes.get_mut(self.next).and_then(Option::take) else {
            return Ok(None);
        };
        if let Some(pending) = pending {
            // How it goes shows when its logits are read.
            let _submission = pending.submitted()?;
        }
        Ok(Some(inputs))
    }

    /// Hands a recorded pass over, with its inputs.
    pub(super) fn submit(&mut self, inputs: Inputs, encoder: CommandEncoder) {
        let pending = self.worker.submit(encoder);
        if let Some(place) = self.passes.get_mut(self.next) {
            *place = Some((inputs, Some(pending)));
        }
        self.next = 1 - self.next;
    }

    /// Waits until all passes are submitted; the first error of those that were not.
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut all = Ok(());
        for index in [self.next, 1 - self.next] {
            let pending = self.passes.get_mut(index).and_then(Option::as_mut).and_then(|pass| pass.1.take());
            if let Some(pending) = pending {
                all = all.and(pending.submitted().map(drop));
            }
        }
        Ok(all?)
    }
}
