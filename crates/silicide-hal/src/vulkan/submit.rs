//! The queue: lists become command buffers, command buffers are used again when their tickets were reached.
//!
//! In steady state a submission allocates nothing: idle recordings are taken, flying ones come back in ticket order.

use super::gpu::Gpu;
use super::record::{Objects, Recording};
use super::timeline::Timeline;
use crate::history::History;
use crate::{CommandList, Result, Span, Ticket};
use ash::vk;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Submissions that may be under way; one more waits for the oldest. More would only hold more memory.
const FLYING: usize = 64;

/// The device's queue.
pub(super) struct Queue {
    gpu: Arc<Gpu>,
    raw: vk::Queue,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    idle: Vec<Recording>,
    /// By ticket, oldest first.
    flying: VecDeque<(u64, Recording)>,
    history: History,
}

impl Queue {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Queue {
        // SAFETY: the device was made with one queue of this family.
        let raw = unsafe { gpu.device.get_device_queue(gpu.adapter.family, 0) };
        Queue { gpu: gpu.clone(), raw, state: Mutex::default() }
    }

    /// Records and submits a list.
    ///
    /// # Safety
    /// See [`RawDevice::submit`](crate::RawDevice::submit).
    pub(super) unsafe fn submit(
        &self,
        list: &CommandList,
        ticket: Ticket,
        objects: &Objects<'_>,
        timeline: &Timeline,
    ) -> Result<()> {
        let mut state = self.lock();
        state.land(timeline.counter()?);
        if let Some((oldest, _)) = state.flying.front().filter(|_| state.flying.len() >= FLYING) {
            let oldest = *oldest;
            timeline.wait_for(oldest, Duration::MAX)?;
            state.land(oldest);
        }
        let mut recording = match state.idle.pop() {
            Some(recording) => recording,
            None => Recording::new(&self.gpu)?,
        };
        // SAFETY: the caller's promise; the recording's last list was reached.
        let (recorded, complaint) = self.gpu.watched(|| unsafe { recording.record(list, objects) });
        if let Some(error) = recorded.err().or(complaint) {
            state.idle.push(recording);
            return Err(error);
        }
        let announced = timeline.ledger.announce(ticket);
        let (started, complaint) = self.gpu.watched(|| self.start(&recording, ticket, timeline));
        match started {
            Ok(()) => {
                state.flying.push_back((ticket.0, recording));
                if let Some(error) = complaint {
                    timeline.ledger.fail(ticket, &error);
                }
                Ok(())
            }
            Err(error) => {
                timeline.ledger.retract(announced);
                state.idle.push(recording);
                Err(error)
            }
        }
    }

    /// Hands a recorded buffer to the device.
    fn start(&self, recording: &Recording, ticket: Ticket, timeline: &Timeline) -> Result<()> {
        let (buffers, semaphores, values) = ([recording.buffer], [timeline.semaphore], [ticket.0]);
        let mut signal = vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let submits = [vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .signal_semaphores(&semaphores)
            .push_next(&mut signal)];
        // SAFETY: the queue is locked by the caller's state, the buffer is recorded and not in use, tickets increase.
        unsafe { self.gpu.device.queue_submit(self.raw, &submits, vk::Fence::null()) }
            .map_err(|result| self.gpu.error("vkQueueSubmit", result))
    }

    /// See [`RawDevice::spans`](crate::RawDevice::spans).
    pub(super) fn spans(&self, ticket: Ticket, timeline: &Timeline) -> Vec<Span> {
        let mut state = self.lock();
        if let Ok(reached) = timeline.counter() {
            state.land(reached);
        }
        state.history.spans(ticket.0)
    }

    /// Recordings idle and flying.
    #[cfg(test)]
    pub(super) fn recordings(&self) -> (usize, usize) {
        let state = self.lock();
        (state.idle.len(), state.flying.len())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes back the recordings of all tickets up to `reached`.
    fn land(&mut self, reached: u64) {
        while let Some((ticket, mut recording)) = self.flying.pop_front_if(|(ticket, _)| *ticket <= reached) {
            if recording.timestamps.has_marks() {
                self.history.keep(ticket, |spans| recording.timestamps.read(spans));
            }
            self.idle.push(recording);
        }
    }
}
