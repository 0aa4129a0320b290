//! Counting what a recording would take, without taking it.
//!
//! An [`Estimate`] is a recorder that runs shape rules, kernel selection and planning for a device, and follows the
//! lives of outputs and scratch just as a [`CommandEncoder`](crate::CommandEncoder) does: memory without handles is used
//! again. Nothing is allocated, so it tells whether work fits before any of it is begun.

use super::Recorder;
use super::lower::scratch_bytes;
use super::recording::is_rested;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{DynOp, Io, Op, Outputs, TensorInfo, select};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A recorder that only counts. See the module's documentation.
#[derive(Debug)]
pub struct Estimate {
    device: Device,
    /// Every temporary; one that only this list holds is free.
    temporaries: Vec<Arc<Temporary>>,
    ops: usize,
    launches: usize,
    /// Bytes of the largest workspace of a kernel.
    workspace: usize,
}

/// Memory that a recording would make.
#[derive(Debug)]
struct Temporary {
    /// Bytes asked for.
    bytes: usize,
    /// The last op that touched it.
    last: AtomicUsize,
}

impl Temporary {
    fn touch(&self, op: usize) {
        self.last.store(op, Ordering::Relaxed);
    }
}

/// A value of an [`Estimate`]: a tensor that is not there.
#[derive(Clone, Debug)]
pub struct Estimated {
    info: TensorInfo,
    /// The temporary that it lies in, if it is one.
    memory: Option<Arc<Temporary>>,
}

impl Estimated {
    /// A tensor that exists outside of what is counted.
    pub fn outside(info: TensorInfo) -> Estimated {
        Estimated { info, memory: None }
    }

    /// Its type and shape.
    pub fn info(&self) -> TensorInfo {
        self.info
    }
}

impl Estimate {
    /// An empty count for a device.
    pub fn new(device: &Device) -> Estimate {
        Estimate { device: device.clone(), temporaries: Vec::new(), ops: 0, launches: 0, workspace: 0 }
    }

    /// Bytes of temporaries that the recording so far takes from the device's pool.
    pub fn bytes(&self) -> usize {
        self.temporaries.iter().map(|held| self.device.shelf().bucket_bytes(held.bytes)).sum()
    }

    /// Bytes of the workspaces that the device's threads need for the recording so far; the backend keeps them, not the pool.
    pub fn workspace_bytes(&self) -> usize {
        self.device.info().workspace_bytes(self.workspace)
    }

    /// Ops recorded so far.
    pub fn ops(&self) -> usize {
        self.ops
    }

    /// Launches, copies and fills that their kernels planned.
    pub fn launches(&self) -> usize {
        self.launches
    }

    fn temporary(&mut self, bytes: usize) -> Arc<Temporary> {
        let now = self.ops;
        let free = |held: &&Arc<Temporary>| {
            held.bytes == bytes
                && Arc::strong_count(held) == 1
                && is_rested(held.last.load(Ordering::Relaxed), now)
        };
        if let Some(memory) = self.temporaries.iter().find(free) {
            return Arc::clone(memory);
        }
        let memory = Arc::new(Temporary { bytes, last: AtomicUsize::new(now) });
        self.temporaries.push(Arc::clone(&memory));
        memory
    }

    /// An op begins that reads some values.
    fn begin_op(&mut self, inputs: &[&Estimated]) {
        self.ops += 1;
        self.touch_all(inputs);
    }

    fn touch_all(&self, values: &[&Estimated]) {
        values.iter().filter_map(|value| value.memory.as_ref()).for_each(|memory| memory.touch(self.ops));
    }

    fn plan(&mut self, op: &dyn DynOp, inputs: &[&Estimated], outputs: &[&Estimated]) -> Result<()> {
        let infos = |values: &[&Estimated]| -> SmallVec<[TensorInfo; 4]> {
            values.iter().map(|value| value.info).collect()
        };
        let (inputs_info, outputs_info, device) = (infos(inputs), infos(outputs), self.device.clone());
        let io = Io { inputs: &inputs_info, outputs: &outputs_info };
        let kernel = select(op, &io, device.info(), None)?;
        let plan = op.kernel_plan(kernel, &io, device.info());
        // All of them are held until the op has its own.
        let scratch: SmallVec<[Arc<Temporary>; 2]> =
            plan.scratch.iter().map(|&bytes| self.temporary(scratch_bytes(bytes))).collect();
        scratch.iter().for_each(|memory| memory.touch(self.ops));
        self.launches += plan.steps.len();
        self.workspace = self.workspace.max(plan.workspace());
        Ok(())
    }
}

impl Recorder for Estimate {
    type Value = Estimated;

    fn device(&self) -> &Device {
        &self.device
    }

    fn constant(&mut self, buffer: &Buffer) -> Estimated {
        Estimated::outside(TensorInfo::new(buffer.dtype(), buffer.shape()))
    }

    fn info(&self, value: &Estimated) -> TensorInfo {
        value.info
    }

    fn reshape(&mut self, value: &Estimated, shape: Shape) -> Result<Estimated> {
        if shape.elements() != value.info.elements() {
            let expected = format!("{} elements", value.info.elements());
            return Err(Error::Shape { op: "reshape", slot: "shape", expected, got: shape });
        }
        Ok(Estimated { info: TensorInfo { shape, ..value.info }, memory: value.memory.clone() })
    }

    fn run<O: Op>(&mut self, op: O, inputs: &[&Estimated]) -> Result<SmallVec<[Estimated; 2]>> {
        let infos: SmallVec<[TensorInfo; 4]> = inputs.iter().map(|value| value.info).collect();
        let inferred = DynOp::infer(&op, &infos)?;
        self.begin_op(inputs);
        let outputs: SmallVec<[Estimated; 2]> = inferred
            .iter()
            .map(|info| Estimated { info: *info, memory: Some(self.temporary(info.bytes())) })
            .collect();
        {
            let given: SmallVec<[&Estimated; 2]> = outputs.iter().collect();
            self.touch_all(&given);
            self.plan(&op, inputs, &given)?;
        }
        Ok(outputs)
    }

    fn run_into<O: Op>(&mut self, op: O, inputs: &[&Estimated], outputs: &[&Estimated]) -> Result<()> {
        let infos: SmallVec<[TensorInfo; 4]> = inputs.iter().map(|value| value.info).collect();
        let given: Outputs = outputs.iter().map(|value| value.info).collect();
        op.check_outputs(&DynOp::infer(&op, &infos)?, &given)?;
        self.begin_op(inputs);
        self.touch_all(outputs);
        self.plan(&op, inputs, outputs)
    }

    fn scope<T>(&mut self, _: &'static str, f: impl FnOnce(&mut Estimate) -> T) -> T {
        f(self)
    }
}
