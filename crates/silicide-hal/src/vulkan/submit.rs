//! The queue: lists become command buffers, command buffers are used again when their tickets were reached.
//!
//! In steady state a submission allocates nothing: idle recordings are taken, flying ones come back in ticket order.
//! Baked lists are recordings that stay: see `baked`.

use super::baked::BakedRecording;
use super::gpu::Gpu;
use super::record::{Objects, Recording};
use super::timeline::VulkanTimeline;
use crate::history::History;
use crate::{CommandList, Result, Span, Ticket};
use ash::vk;
use slab::Slab;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Submissions that may be under way; one more waits for the oldest. More would only hold more memory.
const FLYING: usize = 64;

/// The device's queue.
pub(super) struct Queue {
    gpu: Arc<Gpu>,
    raw: vk::Queue,
    state: Mutex<QueueState>,
}

#[derive(Default)]
pub(super) struct QueueState {
    idle: Vec<Recording>,
    /// By ticket, oldest first.
    flying: VecDeque<(u64, TicketRecording)>,
    history: History,
    pub(super) baked: Slab<BakedRecording>,
}

/// The recording of a ticket. Not boxed: submitting allocates nothing.
#[allow(clippy::large_enum_variant)]
enum TicketRecording {
    /// A recording that is used for another list afterwards.
    Once(Recording),
    /// A baked list.
    Baked(usize),
}

impl Queue {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Queue {
        // SAFETY: `create_device` made the device with one queue of this family.
        let raw = unsafe { gpu.device.get_device_queue(gpu.adapter.family, 0) };
        Queue { gpu: gpu.clone(), raw, state: Mutex::default() }
    }

    /// Records and submits a list.
    ///
    /// # Safety
    /// Handles of `list` are live, its ranges lie in their blocks, and hazards are separated by barriers. `ticket` is greater
    /// than every ticket submitted before.
    pub(super) unsafe fn submit(
        &self,
        list: &CommandList,
        ticket: Ticket,
        objects: &Objects<'_>,
        timeline: &VulkanTimeline,
    ) -> Result<()> {
        let mut state = self.lock();
        state.make_room(timeline)?;
        let mut recording = match state.idle.pop() {
            Some(recording) => recording,
            None => Recording::new(&self.gpu)?,
        };
        // SAFETY: the conditions of `RawDevice::submit` hold for `list` (`# Safety`); an idle recording's list was reached.
        let (recorded, complaint) = self.gpu.watched(|| unsafe {
            recording.record(list, objects, vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT)
        });
        if let Some(error) = recorded.err().or(complaint) {
            state.idle.push(recording);
            return Err(error);
        }
        match self.fly(recording.buffer, ticket, timeline) {
            Ok(()) => {
                state.flying.push_back((ticket.0, TicketRecording::Once(recording)));
                Ok(())
            }
            Err(error) => {
                state.idle.push(recording);
                Err(error)
            }
        }
    }

    /// Hands a recorded buffer to the device, and notes it.
    pub(super) fn fly(
        &self,
        buffer: vk::CommandBuffer,
        ticket: Ticket,
        timeline: &VulkanTimeline,
    ) -> Result<()> {
        let announced = timeline.ledger.announce(ticket);
        let (started, complaint) = self.gpu.watched(|| self.start(buffer, ticket, timeline));
        match (&started, complaint) {
            (Ok(()), Some(error)) => timeline.ledger.fail(ticket, &error),
            (Ok(()), None) => {}
            (Err(_), _) => timeline.ledger.retract(announced),
        }
        started
    }

    fn start(&self, buffer: vk::CommandBuffer, ticket: Ticket, timeline: &VulkanTimeline) -> Result<()> {
        let (buffers, semaphores, values) = ([buffer], [timeline.semaphore], [ticket.0]);
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
    pub(super) fn spans(&self, ticket: Ticket, timeline: &VulkanTimeline) -> Vec<Span> {
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

    pub(super) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    /// Recycles finished recordings, and waits until one more list may be in flight.
    pub(super) fn make_room(&mut self, timeline: &VulkanTimeline) -> Result<()> {
        self.land(timeline.counter()?);
        let oldest = self.flying.front().filter(|_| self.flying.len() >= FLYING).map(|(ticket, _)| *ticket);
        oldest.map_or(Ok(()), |oldest| self.wait_for(oldest, timeline))
    }

    /// Waits for a ticket and recycles its recording.
    pub(super) fn wait_for(&mut self, ticket: u64, timeline: &VulkanTimeline) -> Result<()> {
        timeline.wait_for(ticket, Duration::MAX)?;
        self.land(ticket);
        Ok(())
    }

    /// Notes that a ticket runs a baked list.
    pub(super) fn baked_flies(&mut self, ticket: Ticket, key: usize) {
        self.flying.push_back((ticket.0, TicketRecording::Baked(key)));
    }

    /// Takes back the recordings of all tickets up to `reached`.
    pub(super) fn land(&mut self, reached: u64) {
        while let Some((ticket, flown)) = self.flying.pop_front_if(|(ticket, _)| *ticket <= reached) {
            let recording = match flown {
                TicketRecording::Once(recording) => {
                    self.idle.push(recording);
                    self.idle.last_mut()
                }
                TicketRecording::Baked(key) => self.baked.get_mut(key).map(|baked| &mut baked.recording),
            };
            if let Some(recording) = recording.filter(|recording| recording.timestamps.has_marks()) {
                self.history.keep(ticket, |spans| recording.timestamps.read(spans));
            }
        }
    }
}
