//! Device times of marks, for devices that were opened to tell them.
//!
//! Apple's GPUs read their clock where a pass begins and ends, so each mark opens a pass; others between dispatches;
//! where there are no counters, each mark opens a command buffer, whose times Metal always reports.

use super::adapter::Sampling;
use super::gpu::Gpu;
use super::samples::{Sample, ratio, spans};
use super::split::{MOST_PASSES, MarkRule};
use super::{Object, text};
use crate::Span;
use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_foundation::{NSRange, NSString};
use objc2_metal::{
    MTLCommandBuffer, MTLCommonCounterSetTimestamp, MTLComputeCommandEncoder, MTLComputePassDescriptor,
    MTLCounterSampleBuffer, MTLCounterSampleBufferDescriptor, MTLCounterSet, MTLDevice, MTLStorageMode,
};
use std::ptr::NonNull;
use std::sync::Arc;

/// Samples of a buffer: two for each pass. The largest that Apple's GPUs have.
const SAMPLES: usize = 2 * MOST_PASSES;

/// Buffers of samples, and the clocks.
pub(super) struct Timestamps {
    gpu: Arc<Gpu>,
    idle: Vec<Object<dyn MTLCounterSampleBuffer>>,
    /// The clocks of CPU and GPU when the device was opened.
    opened: (u64, u64),
}

/// The samples of one list.
pub(super) struct Taking {
    sampling: Sampling,
    buffer: Option<Object<dyn MTLCounterSampleBuffer>>,
    /// One per pass, mark or command buffer.
    labels: Vec<Option<&'static str>>,
}

impl Timestamps {
    pub(super) fn new(gpu: &Arc<Gpu>) -> Timestamps {
        Timestamps { gpu: gpu.clone(), idle: Vec::new(), opened: clocks(gpu) }
    }

    /// How marks are timed.
    pub(super) fn rule(&self) -> MarkRule {
        match self.gpu.adapter.sampling {
            Sampling::Off | Sampling::Dispatch => MarkRule::Name,
            Sampling::Pass => MarkRule::Pass,
            Sampling::Buffer => MarkRule::Buffer,
        }
    }

    /// Begins a list. Without a buffer for its samples, it is not timed.
    pub(super) fn begin(&mut self, has_marks: bool) -> Taking {
        let sampling = if has_marks { self.gpu.adapter.sampling } else { Sampling::Off };
        let buffer = match sampling {
            Sampling::Off | Sampling::Buffer => None,
            Sampling::Pass | Sampling::Dispatch => self.idle.pop().or_else(|| self.grow()),
        };
        Taking { sampling, buffer, labels: Vec::new() }
    }

    fn grow(&self) -> Option<Object<dyn MTLCounterSampleBuffer>> {
        // SAFETY: a constant of the framework, never written.
        let wanted: &NSString = unsafe { MTLCommonCounterSetTimestamp };
        let set = self.gpu.device().counterSets()?.iter().find(|set| set.name().isEqualToString(wanted))?;
        let descriptor = MTLCounterSampleBufferDescriptor::new();
        descriptor.setCounterSet(Some(&set));
        descriptor.setStorageMode(MTLStorageMode::Shared);
        descriptor.setLabel(&text("silicide"));
        // SAFETY: `SAMPLES` is no more than the largest buffer of samples that Apple's GPUs have.
        unsafe { descriptor.setSampleCount(SAMPLES) };
        self.gpu.device().newCounterSampleBufferWithDescriptor_error(&descriptor).ok()
    }

    /// The spans of a list that has finished in these command buffers.
    pub(super) fn finish(
        &mut self,
        taking: Taking,
        buffers: &[Object<dyn MTLCommandBuffer>],
        into: &mut Vec<Span>,
    ) {
        if taking.sampling == Sampling::Buffer {
            let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
            let times = buffers.iter().map(|b| (nanoseconds(b.GPUStartTime()), nanoseconds(b.GPUEndTime())));
            let samples: Vec<Sample> = taking
                .labels
                .iter()
                .zip(times)
                .map(|(label, (start, end))| Sample { label: *label, start, end: Some(end) })
                .collect();
            spans(&samples, 1.0, into);
            return;
        }
        let Some(buffer) = taking.buffer else { return };
        let each = if taking.sampling == Sampling::Pass { 2 } else { 1 };
        let range = NSRange::new(0, (taking.labels.len() * each).min(SAMPLES));
        // SAFETY: the range lies in the buffer, and the passes that wrote it have finished.
        if let Some(data) = unsafe { buffer.resolveCounterRange(range) } {
            let bytes = data.to_vec();
            let (ticks, _) = bytes.as_chunks::<8>();
            let ticks: Vec<u64> = ticks.iter().map(|tick| u64::from_ne_bytes(*tick)).collect();
            let samples: Vec<Sample> = taking
                .labels
                .iter()
                .zip(ticks.chunks_exact(each))
                .filter_map(|(label, ticks)| {
                    let (start, rest) = ticks.split_first()?;
                    Some(Sample { label: *label, start: *start, end: rest.first().copied() })
                })
                .collect();
            spans(&samples, ratio(self.opened, clocks(&self.gpu)), into);
        }
        self.idle.push(buffer);
    }
}

impl Taking {
    /// Begins a pass. Returns its descriptor, with the samples to take.
    pub(super) fn pass(&mut self, label: Option<&'static str>) -> Option<Retained<MTLComputePassDescriptor>> {
        let buffer = self.buffer.as_ref().filter(|_| self.sampling == Sampling::Pass)?;
        let index = self.labels.len();
        self.labels.push(label);
        let descriptor = MTLComputePassDescriptor::computePassDescriptor();
        // SAFETY: every pass has this attachment; the samples lie in the buffer, as a list has no more passes.
        unsafe {
            let attachment = descriptor.sampleBufferAttachments().objectAtIndexedSubscript(0);
            attachment.setSampleBuffer(Some(buffer));
            attachment.setStartOfEncoderSampleIndex(2 * index);
            attachment.setEndOfEncoderSampleIndex(2 * index + 1);
        }
        Some(descriptor)
    }

    /// A command buffer begins.
    pub(super) fn command_buffer(&mut self, label: Option<&'static str>) {
        if self.sampling == Sampling::Buffer {
            self.labels.push(label);
        }
    }

    /// A mark stands here.
    pub(super) fn mark(
        &mut self,
        encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>,
        label: &'static str,
    ) {
        self.sample(encoder, Some(label));
    }

    /// The list ends here.
    pub(super) fn end(&mut self, encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>) {
        self.sample(encoder, None);
    }

    fn sample(
        &mut self,
        encoder: &ProtocolObject<dyn MTLComputeCommandEncoder>,
        label: Option<&'static str>,
    ) {
        let (index, is_wanted) = (self.labels.len(), self.sampling == Sampling::Dispatch);
        if let Some(buffer) = self.buffer.as_ref().filter(|_| is_wanted && index < SAMPLES) {
            // SAFETY: the sample lies in the buffer, and the device samples between dispatches.
            unsafe { encoder.sampleCountersInBuffer_atSampleIndex_withBarrier(buffer, index, true) };
            self.labels.push(label);
        }
    }
}

/// Returns the clocks of CPU and GPU now.
fn clocks(gpu: &Gpu) -> (u64, u64) {
    let (mut cpu, mut own) = (0u64, 0u64);
    // SAFETY: both addresses are of local words, valid for writes during the call.
    unsafe { gpu.device().sampleTimestamps_gpuTimestamp(NonNull::from(&mut cpu), NonNull::from(&mut own)) };
    (cpu, own)
}
