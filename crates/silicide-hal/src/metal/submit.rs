//! The queue: lists become command buffers, whose status is read when they have finished.
//!
//! A list is encoded whole before anything of it starts, so that a list that can't be encoded leaves no trace. Its last
//! command buffer signals the ticket. Status, error and times are read from a command buffer once it is complete: that
//! is when a ticket counts as reached.

use super::Object;
use super::arguments::weight;
use super::gpu::Gpu;
use super::record::{Objects, Pass};
use super::residency::Residency;
use super::split::{Pace, Piece, cut};
use super::text;
use super::timeline::MetalTimeline;
use super::timestamps::{Taking, Timestamps};
use crate::history::History;
use crate::{Command, CommandList, HalError, Result, Span, Ticket};
use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLCommandBuffer, MTLCommandBufferDescriptor, MTLCommandBufferErrorOption, MTLCommandBufferStatus,
    MTLCommandEncoder, MTLCommandQueue, MTLComputeCommandEncoder, MTLDispatchType, MTLEvent,
};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Submissions that may be under way; one more waits for the oldest. More would only hold more memory.
const FLYING: usize = 64;

/// A failed command buffer may never signal: a waiting thread looks at it this often.
const LOOK: Duration = Duration::from_millis(100);

/// The device's queue.
pub(super) struct Queue {
    gpu: Arc<Gpu>,
    residency: Arc<Residency>,
    pub(super) timeline: MetalTimeline,
    state: Mutex<QueueState>,
}

struct QueueState {
    /// By ticket, oldest first.
    flying: VecDeque<Flight>,
    timestamps: Timestamps,
    history: History,
    pace: Pace,
    /// Whether there is a pass that updates the fence: before it there is nothing to wait for.
    is_fenced: bool,
}

/// A list under way.
struct Flight {
    ticket: Ticket,
    buffers: Vec<Object<dyn MTLCommandBuffer>>,
    /// How much work each of them is.
    weights: Vec<u64>,
    has_passes: bool,
    taking: Option<Taking>,
}

// SAFETY: Metal's command buffers and sample buffers may be used from any thread, one at a time; `Queue` keeps them
// behind a lock.
unsafe impl Send for QueueState {}

impl Queue {
    pub(super) fn new(gpu: &Arc<Gpu>, residency: &Arc<Residency>) -> Result<Queue> {
        let state = QueueState {
            flying: VecDeque::new(),
            timestamps: Timestamps::new(gpu),
            history: History::default(),
            pace: Pace::default(),
            is_fenced: false,
        };
        Ok(Queue {
            gpu: gpu.clone(),
            residency: residency.clone(),
            timeline: MetalTimeline::new(gpu)?,
            state: Mutex::new(state),
        })
    }

    /// Encodes and starts a list.
    ///
    /// # Safety
    /// See [`RawDevice::submit`](crate::RawDevice::submit).
    pub(super) unsafe fn submit(
        &self,
        list: &CommandList,
        ticket: Ticket,
        objects: &Objects<'_>,
    ) -> Result<()> {
        self.gpu.check()?;
        while let Some(oldest) = self.oldest_of_many() {
            self.wait_for(oldest, Duration::MAX)?;
        }
        autoreleasepool(|_| {
            let mut state = self.lock();
            // SAFETY: the conditions of `RawDevice::submit` hold for `list` (`# Safety`).
            let flight = unsafe { self.encode(list, ticket, objects, &mut state) }?;
            self.residency.touch();
            self.timeline.ledger.announce(ticket);
            for buffer in &flight.buffers {
                buffer.commit();
            }
            state.is_fenced |= flight.has_passes;
            state.flying.push_back(flight);
            Ok(())
        })
    }

    /// # Safety
    /// As for [`Queue::submit`].
    unsafe fn encode(
        &self,
        list: &CommandList,
        ticket: Ticket,
        objects: &Objects<'_>,
        state: &mut QueueState,
    ) -> Result<Flight> {
        let threads = |command: &Command| match command {
            Command::Dispatch(dispatch) => {
                objects.pipelines.get(dispatch.pipeline.0 as usize).map_or(1, |pipeline| pipeline.threads)
            }
            _ => 1,
        };
        let rule = state.timestamps.rule();
        let pieces = cut(list, rule, state.pace.limit(), |command| weight(command, threads(command)));
        let has_marks = list.commands.iter().any(|command| matches!(command, Command::Mark { .. }));
        let mut taking = state.timestamps.begin(has_marks);
        let mut flight =
            Flight { ticket, buffers: Vec::new(), weights: Vec::new(), has_passes: false, taking: None };
        for (index, piece) in pieces.iter().enumerate() {
            if flight.buffers.len() <= piece.buffer {
                flight.buffers.push(self.command_buffer(ticket)?);
                flight.weights.push(0);
                taking.command_buffer(piece.label);
            }
            let (Some(buffer), Some(weight)) = (flight.buffers.last(), flight.weights.last_mut()) else {
                continue;
            };
            *weight = weight.saturating_add(piece.weight);
            if piece.commands.is_empty() {
                continue;
            }
            let encoder = self.encoder(buffer, piece, &mut taking)?;
            if state.is_fenced || flight.has_passes {
                encoder.waitForFence(&self.gpu.fence);
            }
            flight.has_passes = true;
            let labels = self.gpu.labels.load(Ordering::Relaxed);
            // SAFETY: the conditions of `RawDevice::submit` hold for `list` (`# Safety`).
            unsafe { Pass::new(&encoder, objects, labels).encode(list, piece.commands.clone(), &mut taking) };
            if index + 1 == pieces.len() {
                taking.end(&encoder);
            }
            encoder.updateFence(&self.gpu.fence);
            encoder.endEncoding();
        }
        if let Some(last) = flight.buffers.last() {
            let event: &ProtocolObject<dyn MTLEvent> = ProtocolObject::from_ref(&*self.timeline.event);
            last.encodeSignalEvent_value(event, ticket.0);
        }
        flight.taking = has_marks.then_some(taking);
        Ok(flight)
    }

    /// Returns a command buffer that holds nothing alive: the core keeps what lists use until their tickets are reached.
    fn command_buffer(&self, ticket: Ticket) -> Result<Object<dyn MTLCommandBuffer>> {
        let made = match self.gpu.validation {
            false => self.gpu.queue.commandBufferWithUnretainedReferences(),
            true => {
                let descriptor = MTLCommandBufferDescriptor::new();
                descriptor.setRetainedReferences(false);
                descriptor.setErrorOptions(MTLCommandBufferErrorOption::EncoderExecutionStatus);
                self.gpu.queue.commandBufferWithDescriptor(&descriptor)
            }
        };
        let detail = || "the queue gave no command buffer".to_owned();
        let made = made.ok_or_else(|| HalError::Driver { call: "commandBuffer", detail: detail() })?;
        if self.gpu.labels.load(Ordering::Relaxed) {
            made.setLabel(Some(&text(&format!("silicide {}", ticket.0))));
        }
        Ok(made)
    }

    /// Returns a concurrent pass. Nothing may fail between this and the end of its encoding.
    fn encoder(
        &self,
        buffer: &ProtocolObject<dyn MTLCommandBuffer>,
        piece: &Piece,
        taking: &mut Taking,
    ) -> Result<Object<dyn MTLComputeCommandEncoder>> {
        let made = match taking.pass(piece.label) {
            Some(descriptor) => {
                descriptor.setDispatchType(MTLDispatchType::Concurrent);
                buffer.computeCommandEncoderWithDescriptor(&descriptor)
            }
            None => buffer.computeCommandEncoderWithDispatchType(MTLDispatchType::Concurrent),
        };
        let detail = || "the command buffer gave no encoder".to_owned();
        let made =
            made.ok_or_else(|| HalError::Driver { call: "computeCommandEncoder", detail: detail() })?;
        if let Some(label) = piece.label.filter(|_| self.gpu.labels.load(Ordering::Relaxed)) {
            made.setLabel(Some(&text(label)));
        }
        Ok(made)
    }

    /// See [`RawDevice::wait`](crate::RawDevice::wait).
    pub(super) fn wait(&self, ticket: Ticket, timeout: Duration) -> Result<()> {
        let ledger = &self.timeline.ledger;
        let failure = ledger.failure(ticket);
        let value = failure.as_ref().map_or(ticket.0, |failure| failure.over);
        self.wait_for(value, timeout)?;
        // The list may have failed while it was waited for: look again.
        match failure.or_else(|| ledger.failure(ticket)) {
            Some(failure) => Err(failure.error),
            None => self.gpu.check(),
        }
    }

    /// Waits until a ticket, and all before it, have finished and were looked at.
    fn wait_for(&self, ticket: u64, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        let mut was_signalled = false;
        loop {
            self.land(if was_signalled { ticket } else { 0 });
            if self.timeline.landed() >= ticket {
                return Ok(());
            }
            self.gpu.check()?;
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                return Err(HalError::Timeout { millis });
            }
            was_signalled = self.timeline.sleep(ticket, left.min(LOOK));
        }
    }

    /// See [`RawDevice::reached`](crate::RawDevice::reached).
    pub(super) fn reached(&self) -> Result<Ticket> {
        self.timeline.ledger.reached(|| {
            self.land(0);
            self.gpu.check().map(|()| self.timeline.landed())
        })
    }

    /// See [`RawDevice::spans`](crate::RawDevice::spans).
    pub(super) fn spans(&self, ticket: Ticket) -> Vec<Span> {
        self.land(0);
        self.lock().history.spans(ticket.0)
    }

    /// Waits for everything, whatever becomes of it.
    pub(super) fn drain(&self) {
        self.land(u64::MAX);
    }

    /// Takes in the lists that have finished. Those up to `signalled` have, as good as: they are waited for.
    fn land(&self, signalled: u64) {
        autoreleasepool(|_| {
            let mut state = self.lock();
            while let Some(flight) = state.flying.pop_front_if(|flight| flight.is_over(signalled)) {
                self.look_at(flight, &mut state);
            }
        });
    }

    /// Reads the status of a list's command buffers.
    fn look_at(&self, flight: Flight, state: &mut QueueState) {
        let mut failure = None;
        for (buffer, weight) in flight.buffers.iter().zip(&flight.weights) {
            if buffer.status() == MTLCommandBufferStatus::Error {
                let error = self.gpu.failed(buffer.error());
                failure.get_or_insert(error);
            } else {
                state.pace.observe(*weight, (buffer.GPUEndTime() - buffer.GPUStartTime()) * 1e9);
            }
        }
        if let Some(taking) = flight.taking {
            let (history, timestamps) = (&mut state.history, &mut state.timestamps);
            history.keep(flight.ticket.0, |spans| timestamps.finish(taking, &flight.buffers, spans));
        }
        // In this order: a thread that sees the ticket reached also sees its failure.
        if let Some(error) = failure {
            self.timeline.ledger.fail(flight.ticket, &error);
        }
        self.timeline.land(flight.ticket);
    }

    /// Returns the oldest submission, when there are too many.
    fn oldest_of_many(&self) -> Option<u64> {
        let state = self.lock();
        state.flying.front().filter(|_| state.flying.len() >= FLYING).map(|flight| flight.ticket.0)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// Returns whether it has finished. One that was signalled is waited for: its command buffers are about to complete.
    fn is_over(&self, signalled: u64) -> bool {
        if self.ticket.0 <= signalled {
            self.buffers.iter().for_each(|buffer| buffer.waitUntilCompleted());
        }
        let is_over =
            |status| matches!(status, MTLCommandBufferStatus::Completed | MTLCommandBufferStatus::Error);
        self.buffers.iter().all(|buffer| is_over(buffer.status()))
    }
}
