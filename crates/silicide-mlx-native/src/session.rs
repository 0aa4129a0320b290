//! Sessions: one encoder, whose command buffers follow one another as stages.
//!
//! A device of silicide runs lists in the order in which they were submitted, as far as they share bytes. So the fence between stages
//! is a number here, and needs no event.

use crate::error::Result;
use crate::{CommandEncoder, MlxBuffer, MlxDevice, counters, metal};
use std::sync::LazyLock;

static ENABLED: LazyLock<bool> = LazyLock::new(|| counters::is_one("HF2Q_ENCODER_SESSION"));

/// An encoder for several stages.
pub struct EncoderSession {
    encoder: CommandEncoder,
    label: Option<String>,
    drained: bool,
    fence_pending: bool,
    fence_value: u64,
    wait_value: u64,
    wait_count: u64,
}

impl EncoderSession {
    pub(crate) fn new(device: &MlxDevice) -> EncoderSession {
        EncoderSession {
            encoder: CommandEncoder::new(device),
            label: None,
            drained: false,
            fence_pending: false,
            fence_value: 0,
            wait_value: 0,
            wait_count: 0,
        }
    }

    /// Returns whether `HF2Q_ENCODER_SESSION` was 1 when it was first looked up.
    pub fn env_enabled() -> bool {
        *ENABLED
    }

    /// Sets the label of the stage.
    pub fn begin_stage(&mut self, label: &str) {
        self.label = Some(label.to_owned());
        self.encoder.metal_command_buffer().set_label(label);
    }

    /// Returns the encoder.
    pub fn encoder(&mut self) -> &mut CommandEncoder {
        &mut self.encoder
    }

    /// Submits the stage and returns at once. A second commit of a stage is ignored.
    pub fn commit_stage(&mut self) -> Result<()> {
        if !self.drained {
            self.submit(None);
        }
        Ok(())
    }

    /// Submits the stage, unless that has happened, and waits for it.
    pub fn commit_and_wait(&mut self) -> Result<()> {
        self.commit_stage()?;
        self.encoder.wait_until_completed()
    }

    /// Raises the fence by one and submits the stage, unless that has happened.
    pub fn fence_stage(&mut self, label: Option<&str>) -> Result<()> {
        if !self.drained {
            self.fence_value += 1;
            self.fence_pending = true;
            self.submit(label);
        }
        Ok(())
    }

    /// Begins a new command buffer, which runs after the fence.
    pub fn reset_for_next_stage(&mut self) -> Result<()> {
        if !self.drained {
            self.submit(None);
        }
        if self.fence_pending {
            self.wait_value = self.fence_value;
            self.wait_count += 1;
        }
        self.encoder.renew();
        self.drained = false;
        self.fence_pending = false;
        Ok(())
    }

    fn submit(&mut self, label: Option<&str>) {
        let stage = self.label.take();
        match label.or(stage.as_deref()) {
            Some(label) => self.encoder.commit_labeled(label),
            None => self.encoder.commit(),
        }
        self.drained = true;
    }

    /// Returns false: there are no residency sets.
    pub fn add_to_residency_set(&self, _buffer: &MlxBuffer) -> bool {
        false
    }

    /// Returns false: there are no residency sets.
    pub fn remove_from_residency_set(&self, _buffer: &MlxBuffer) -> bool {
        false
    }

    /// Returns whether the stage was submitted.
    pub fn is_drained(&self) -> bool {
        self.drained
    }

    /// Returns whether a fence was raised that no stage has waited for.
    pub fn is_fence_pending(&self) -> bool {
        self.fence_pending
    }

    /// Returns how often the fence was raised.
    pub fn fence_value(&self) -> u64 {
        self.fence_value
    }

    /// Returns whether the fence was ever raised.
    pub fn has_event(&self) -> bool {
        self.fence_value > 0
    }

    /// Returns the fence that the stage waits for; 0 for none.
    pub fn wait_value(&self) -> u64 {
        self.wait_value
    }

    /// Returns the number of stages that waited for a fence.
    pub fn wait_count(&self) -> u64 {
        self.wait_count
    }

    /// Returns the command buffer.
    pub fn metal_command_buffer(&self) -> &metal::CommandBuffer {
        self.encoder.metal_command_buffer()
    }
}

impl Drop for EncoderSession {
    fn drop(&mut self) {
        if self.fence_pending {
            self.encoder.metal_command_buffer().wait_until_completed();
        }
    }
}
