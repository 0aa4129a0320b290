//! The command encoder: takes ops and transfers, derives barriers, submits the list.

use super::recording::{BufferRegion, Recording, temporary};
use super::rules::{self, Argument, Extent, check_device};
use super::{Recorder, Submission, lower};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, DynOp, Io, KernelCall, Op, TensorInfo, intern_label, select};
use silicide_hal::{Command, CommandList};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::mem;

/// Records commands for a device and submits them as one list.
///
/// Recording runs nothing. Commands that touch the same bytes run in the order they were recorded in; others may
/// run at once. Dropping an encoder discards what it recorded.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::{Buffer, CommandEncoder, Device};
///
/// let device = Device::cpu()?;
/// let from = Buffer::from_slice(&device, [4], &[1u32, 2, 3, 4])?;
/// let to = Buffer::from_slice(&device, [4], &[0u32; 4])?;
/// let mut encoder = CommandEncoder::new(&device);
/// encoder.copy(&from, &to)?; // nothing runs yet
/// encoder.submit()?.wait()?;
/// assert_eq!(to.to_vec::<u32>()?, [1, 2, 3, 4]);
/// # Ok::<(), silicide::Error>(())
/// ```
#[derive(Debug)]
pub struct CommandEncoder {
    device: Device,
    recording: Recording,
    options: EncoderOptions,
    /// The innermost scope that is open.
    scope: Option<&'static str>,
}

/// The label of commands outside of all scopes.
const OUTSIDE: &str = "outside";

/// How to record.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct EncoderOptions {
    /// Use this kernel instead of the cheapest; ops that don't have it, or that it doesn't fit, are refused.
    pub kernel: Option<&'static str>,
    /// Put a timing mark before each op, so that a submission's times name ops instead of scopes, and record the tiles of each thread.
    pub mark_ops: bool,
    /// Record the tiles of each thread, for [`Submission::thread_times`] and [`Submission::barrier_time`]. `mark_ops` does so too.
    pub trace: bool,
}

impl EncoderOptions {
    /// Sets the kernel to use instead of the cheapest.
    pub fn kernel(mut self, name: &'static str) -> EncoderOptions {
        self.kernel = Some(name);
        self
    }

    /// Sets whether a timing mark precedes each op.
    pub fn mark_ops(mut self, mark: bool) -> EncoderOptions {
        self.mark_ops = mark;
        self
    }

    /// Sets whether the tiles of each thread are recorded.
    pub fn trace(mut self, trace: bool) -> EncoderOptions {
        self.trace = trace;
        self
    }
}

impl CommandEncoder {
    /// An empty encoder.
    pub fn new(device: &Device) -> CommandEncoder {
        CommandEncoder::with(device, EncoderOptions::default())
    }

    /// An empty encoder with options.
    pub fn with(device: &Device, options: EncoderOptions) -> CommandEncoder {
        let mut recording = device.recycler().take();
        recording.list.traced = options.mark_ops || options.trace;
        if options.trace {
            // Traces are kept with the times of marks.
            recording.list.commands.push(Command::Mark { label: OUTSIDE });
        }
        CommandEncoder { device: device.clone(), recording, options, scope: None }
    }

    /// The device that will run the list.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the list that was recorded so far.
    pub fn list(&self) -> &CommandList {
        &self.recording.list
    }

    /// Records an op without its type. Outputs come from the device's pool, and scratch memory too: the list keeps both until it
    /// has run. A pass with many values takes less memory as a graph ([`GraphBuilder`](crate::GraphBuilder)).
    pub fn record(&mut self, op: &dyn DynOp, inputs: &[&Buffer]) -> Result<SmallVec<[Buffer; 2]>> {
        let arguments = Argument::all(&self.device, inputs, op.name())?;
        let inferred = rules::check_inputs(op, &arguments)?;
        let bytes = rules::check_new_outputs(&self.device, op, &inferred)?;
        let mut outputs: SmallVec<[Buffer; 2]> = SmallVec::new();
        for (info, bytes) in inferred.iter().zip(bytes) {
            outputs.push(temporary(&self.device, info.dtype, info.shape, bytes)?);
        }
        {
            let given: SmallVec<[&Buffer; 2]> = outputs.iter().collect();
            self.record_with(op, (inputs, &rules::infos(&arguments)), (&given, &inferred))?;
        }
        Ok(outputs)
    }

    /// Records an op without its type, into buffers that exist.
    pub fn record_into(&mut self, op: &dyn DynOp, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let arguments = Argument::all(&self.device, inputs, op.name())?;
        let inferred = rules::check_inputs(op, &arguments)?;
        let given = Argument::all(&self.device, outputs, op.name())?;
        rules::check_outputs(op, &arguments, &inferred, &given)?;
        let (arguments, given) = (rules::infos(&arguments), rules::infos(&given));
        self.record_with(op, (inputs, &arguments), (outputs, &given))
    }

    /// Records a copy of all bytes of `from` into `to`, which has the same type and size.
    pub fn copy(&mut self, from: &Buffer, to: &Buffer) -> Result<()> {
        let what = "copy";
        for buffer in [from, to] {
            check_device(&self.device, buffer, what)?;
        }
        if from.size() != to.size() {
            return Err(Error::SizeMismatch { what, expected: to.size(), got: from.size() });
        }
        if from.dtype() != to.dtype() {
            let expected = to.dtype().to_string();
            return Err(Error::DTypeMismatch { op: what, slot: "from", expected, got: from.dtype() });
        }
        if !to.is_writable()? {
            return Err(Error::ReadOnly { what });
        }
        if Extent::of(from).overlaps(&Extent::of(to)) {
            return Err(Error::Aliasing { op: what, output: "to", other: "from" });
        }
        if !self.recording.has_room(0, 0) {
            let (device, limit) = (self.device.info().id.clone(), u32::MAX as usize);
            return Err(Error::TooLarge { device, what: "command list", bytes: from.size(), limit });
        }
        self.recording.copy(&BufferRegion::of(from, Access::Read)?, &BufferRegion::of(to, Access::Write)?);
        Ok(())
    }

    /// Records a call of a registered kernel, with its arguments in the order of its bindings.
    pub fn dispatch(&mut self, call: &KernelCall, bindings: &[&Buffer]) -> Result<()> {
        let (inputs, outputs) = call.split(bindings)?;
        Recorder::run_into(self, call.clone(), &inputs, &outputs)
    }

    /// Opens a timed span that lasts until the next mark or the end of the list.
    pub fn mark(&mut self, label: &'static str) {
        self.recording.list.commands.push(Command::Mark { label });
    }

    /// As [`mark`](CommandEncoder::mark), with a label that is made at run time. The first 4096 different labels stay in memory until the
    /// process ends; a new one after them is `other labels`.
    pub fn label(&mut self, label: &str) {
        self.mark(intern_label(label));
    }

    /// Submits the list. On failure nothing of it runs.
    pub fn submit(mut self) -> Result<Submission> {
        let recording = &mut self.recording;
        let (list, uses, touches) = (&recording.list, &mut recording.uses, &recording.touches);
        let ticket = self.device.timeline().submit(&self.device, list, uses, touches)?;
        self.device.counter_set().submitted(&recording.tally);
        Ok(Submission::new(self.device.clone(), ticket))
    }

    fn record_with(
        &mut self,
        op: &dyn DynOp,
        inputs: (&[&Buffer], &[TensorInfo]),
        outputs: (&[&Buffer], &[TensorInfo]),
    ) -> Result<()> {
        let io = Io { inputs: inputs.1, outputs: outputs.1 };
        let on = self.device.info();
        let kernel = select(op, &io, on, self.options.kernel)?;
        let plan = op.kernel_plan(kernel, &io, on);
        let call = lower::Call {
            device: &self.device,
            op,
            kernel: op.kernel_name(kernel),
            inputs: inputs.0,
            outputs: outputs.0,
        };
        let mark = self.options.mark_ops.then(|| op.name());
        lower::lower(&mut self.recording, &call, &plan, mark)
    }
}

impl Recorder for CommandEncoder {
    type Value = Buffer;

    fn device(&self) -> &Device {
        &self.device
    }

    fn constant(&mut self, buffer: &Buffer) -> Buffer {
        buffer.clone()
    }

    fn info(&self, buffer: &Buffer) -> TensorInfo {
        buffer.info_before_allocation()
    }

    fn reshape(&mut self, buffer: &Buffer, shape: Shape) -> Result<Buffer> {
        buffer.reshape(shape)
    }

    fn run<O: Op>(&mut self, op: O, inputs: &[&Buffer]) -> Result<SmallVec<[Buffer; 2]>> {
        self.record(&op, inputs)
    }

    fn run_into<O: Op>(&mut self, op: O, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.record_into(&op, inputs, outputs)
    }

    fn scope<T>(&mut self, label: &'static str, f: impl FnOnce(&mut CommandEncoder) -> T) -> T {
        self.mark(label);
        let outer = self.scope.replace(label);
        let result = f(self);
        self.scope = outer;
        // What follows does not belong to the scope; if nothing does, no mark is needed.
        self.recording.next_mark = Some(outer.unwrap_or(OUTSIDE));
        result
    }
}

impl Drop for CommandEncoder {
    fn drop(&mut self) {
        self.device.recycler().give(mem::take(&mut self.recording));
    }
}
