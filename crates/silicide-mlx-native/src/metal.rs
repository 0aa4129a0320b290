//! Names of the crate `metal` that the API of mlx-native shows. Here they stand for objects of silicide, on every system.

use crate::encoder::{MemRange, Program};
use crate::hazard::OperandStart;
use silicide::kernel::NamedKernel;
use silicide::record::Submission;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Three extents of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MTLSize {
    /// Along x.
    pub width: u64,
    /// Along y.
    pub height: u64,
    /// Along z.
    pub depth: u64,
}

impl MTLSize {
    /// Extents along x, y and z.
    pub const fn new(width: u64, height: u64, depth: u64) -> MTLSize {
        MTLSize { width, height, depth }
    }
}

/// A device of silicide.
#[derive(Clone, Debug)]
pub struct Device(pub(crate) silicide::Device);

/// A device, borrowed.
pub type DeviceRef = Device;

impl Device {
    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.0.info().name
    }

    /// Returns the most bytes of an allocation.
    pub fn max_buffer_length(&self) -> u64 {
        self.0.info().limits.max_block as u64
    }
}

/// An allocation.
#[derive(Clone, Debug)]
pub struct Buffer(pub(crate) silicide::Buffer);

/// An allocation, borrowed.
pub type BufferRef = Buffer;

impl Buffer {
    /// Returns the bytes of the allocation.
    pub fn length(&self) -> u64 {
        self.0.size() as u64
    }
}

/// The queue of a device.
#[derive(Clone, Debug)]
pub struct CommandQueue(pub(crate) silicide::Device);

/// A queue, borrowed.
pub type CommandQueueRef = CommandQueue;

impl CommandQueue {
    /// Returns the device.
    pub fn device(&self) -> Device {
        Device(self.0.clone())
    }
}

/// A kernel. One that a capture holds also has the operands that it was recorded with.
#[derive(Clone)]
pub struct ComputePipelineState {
    label: Arc<str>,
    program: Option<CapturedProgram>,
    /// The kernel of a WGSL text that a program registered.
    named: Option<NamedKernel>,
}

/// The program of a captured kernel.
#[derive(Clone)]
pub(crate) struct CapturedProgram {
    pub(crate) program: Program,
    /// Where the operands begin, in the order of the node's bindings.
    pub(crate) operands: Vec<OperandStart>,
    /// The ranges that are written.
    pub(crate) writes: Vec<MemRange>,
}

/// A kernel, borrowed.
pub type ComputePipelineStateRef = ComputePipelineState;

impl ComputePipelineState {
    pub(crate) fn new(label: &str, program: Option<CapturedProgram>) -> ComputePipelineState {
        ComputePipelineState { label: label.into(), program, named: None }
    }

    pub(crate) fn of_text(kernel: NamedKernel, label: &str) -> ComputePipelineState {
        ComputePipelineState { label: label.into(), program: None, named: Some(kernel) }
    }

    /// Returns the kernel's name.
    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn named(&self) -> Option<NamedKernel> {
        self.named
    }

    pub(crate) fn program(&self) -> Option<&CapturedProgram> {
        self.program.as_ref()
    }
}

impl fmt::Debug for ComputePipelineState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ComputePipelineState").field(&self.label).finish()
    }
}

/// Submitted work, if there was any, or why it was not submitted.
pub(crate) type Outcome = std::result::Result<Option<Submission>, String>;

#[derive(Debug, Default)]
struct CommandBufferState {
    label: Mutex<String>,
    /// Set once, when the work is submitted.
    outcome: OnceLock<Outcome>,
}

/// A list of commands, before and after it is submitted.
#[derive(Clone, Debug, Default)]
pub struct CommandBuffer(Arc<CommandBufferState>);

/// A list of commands, borrowed.
pub type CommandBufferRef = CommandBuffer;

impl CommandBuffer {
    /// Returns the label that the last commit set.
    pub fn label(&self) -> String {
        self.0.label.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the label.
    pub fn set_label(&self, label: &str) {
        *self.0.label.lock().unwrap_or_else(PoisonError::into_inner) = label.to_owned();
    }

    /// Waits until the submitted work is done. Returns at once if nothing was submitted. An error of the work is found by
    /// [`CommandEncoder::wait_until_completed`](crate::CommandEncoder::wait_until_completed).
    pub fn wait_until_completed(&self) {
        let _ = self.wait();
    }

    /// Waits, and returns the error of the work.
    pub(crate) fn wait(&self) -> std::result::Result<(), String> {
        match self.0.outcome.get() {
            None | Some(Ok(None)) => Ok(()),
            Some(Ok(Some(submission))) => submission.wait().map_err(|error| error.to_string()),
            Some(Err(text)) => Err(text.clone()),
        }
    }

    pub(crate) fn is_committed(&self) -> bool {
        self.0.outcome.get().is_some()
    }

    pub(crate) fn submission(&self) -> Option<&Submission> {
        self.0.outcome.get()?.as_ref().ok()?.as_ref()
    }

    pub(crate) fn commit(&self, outcome: Outcome) {
        let _ = self.0.outcome.set(outcome);
    }
}
