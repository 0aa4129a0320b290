//! Submission, waiting and times.

use super::CommandEncoder;
use crate::error::{MlxError, Result};
use crate::kernel_profile;
use crate::metal::CommandBuffer;
use crate::{counters, error};

impl CommandEncoder {
    /// Submits the command buffer and returns at once. A second commit without new commands does nothing. An error shows when the work is
    /// waited for.
    pub fn commit(&mut self) {
        if self.command_buffer.is_committed() {
            if self.recorder.is_none() {
                return;
            }
            // Commands after a commit: mlx-native's process ends. They become a command buffer of their own.
            self.renew();
        }
        counters::COMMITS.add(1);
        self.unsubmitted.clear();
        let outcome = match (self.failure.take(), self.recorder.take()) {
            (Some(failure), _) => Err(failure),
            (None, None) => Ok(None),
            (None, Some(recorder)) => recorder.submit().map(Some).map_err(|error| error.to_string()),
        };
        self.command_buffer.commit(outcome);
    }

    /// Submits the command buffer and waits for it.
    pub fn commit_and_wait(&mut self) -> Result<()> {
        self.commit();
        self.wait_until_completed()
    }

    /// [`CommandEncoder::commit`] with a label.
    pub fn commit_labeled(&mut self, label: &str) {
        self.command_buffer.set_label(label);
        self.commit();
        if kernel_profile::is_enabled() && self.wait_until_completed().is_ok() {
            kernel_profile::record(label, self.completed_gpu_interval_ns());
        }
    }

    /// [`CommandEncoder::commit_and_wait`] with a label.
    pub fn commit_and_wait_labeled(&mut self, label: &str) -> Result<()> {
        self.command_buffer.set_label(label);
        self.commit_and_wait()?;
        if kernel_profile::is_enabled() {
            kernel_profile::record(label, self.completed_gpu_interval_ns());
        }
        Ok(())
    }

    /// Submits, waits, and returns when the device began and ended, in seconds on a clock of its own.
    pub fn commit_wait_with_gpu_time(&mut self) -> Result<(f64, f64)> {
        self.commit_and_wait()?;
        let busy = self.completed_gpu_interval_ns();
        counters::GPU_BUSY.add(busy);
        Ok((0.0, busy as f64 * 1e-9))
    }

    /// Submits, waits, and begins a new command buffer.
    pub fn commit_wait_and_rotate(&mut self) -> Result<()> {
        self.commit_and_wait()?;
        self.renew();
        Ok(())
    }

    /// Waits for the submitted command buffer and returns its error.
    pub fn wait_until_completed(&self) -> Result<()> {
        counters::SYNCS.add(1);
        self.command_buffer.wait().map_err(MlxError::CommandBufferError)
    }

    /// Returns how long the device worked on the completed command buffer, in ns; 0 before.
    pub fn completed_gpu_interval_ns(&self) -> u64 {
        let spans = self.command_buffer.submission().map(silicide::record::Submission::times);
        spans.into_iter().flatten().map(|span| span.duration_ns).fold(0, u64::saturating_add)
    }

    /// Returns the command buffer.
    pub fn metal_command_buffer(&self) -> &CommandBuffer {
        &self.command_buffer
    }

    /// Submits what was encoded under a label, waits, and begins a new command buffer, if the profile of command buffers is on.
    pub fn profile_stage_boundary(&mut self, label: &str) -> error::Result<()> {
        if !kernel_profile::is_enabled() || self.is_capturing() {
            return Ok(());
        }
        self.commit_and_wait_labeled(label)?;
        self.renew();
        Ok(())
    }

    /// Begins a new command buffer.
    pub(crate) fn renew(&mut self) {
        counters::COMMAND_BUFFERS.add(1);
        self.command_buffer = CommandBuffer::default();
        self.active = false;
        self.tracker.reset();
    }
}
