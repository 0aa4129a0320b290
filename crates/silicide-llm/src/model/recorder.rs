//! The recorder of forward passes. It cuts a pass into segments, one after the other, each on one device.
//!
//! **An op runs on the device of its constants and inputs; an op without those runs where the op before it ran; a scope ends
//! on the device that it began on.** So a pass follows its weights, and decoders name no devices:
//!
//! ```text
//! weights of     embedding  layer 0  layer 1 | layer 2: attention, router | experts | layer 3 ...
//! device         CPU        CPU      CPU     | GPU                        | CPU     | GPU
//! segment        0 ------------------------- | 1 ------------------------ | 2 ----- | 3
//! transfers                                x ┘          hidden rows, ids, weights ┘  └ sum of the experts
//! ```
//!
//! A value that a later segment reads is *transferred* when its own segment has run: to staging memory on the reading device, once for
//! each device. A pass on one device is one segment without transfers.

use crate::error::{Error, Result};
use silicide_core::kernel::{Op, TensorInfo};
use silicide_core::{
    Buffer, ComputeGraph, Device, GraphBuilder, GraphValue, LiveExtent, Parameter, Recorder,
};
use silicide_quant::Shape;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// The identity of the next recorder.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A tensor of a [`PassRecorder`].
#[derive(Clone, Copy, Debug)]
pub struct PassValue {
    /// The identity of its recorder.
    pass: u64,
    tensor: usize,
    info: TensorInfo,
}

/// A live extent of a pass, in all of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassExtent(pub(crate) usize);

/// Records a forward pass on the devices of its weights.
#[derive(Debug)]
pub struct PassRecorder {
    /// Its identity, which its values carry.
    id: u64,
    /// The device of ops without constants.
    device: Device,
    scopes: Vec<&'static str>,
    extents: Vec<(&'static str, usize)>,
    parameters: Vec<DeclaredParameter>,
    inputs: Vec<DeclaredInput>,
    tensors: Vec<Tensor>,
    segments: Vec<Segment>,
    transfers: Vec<Transfer>,
}

#[derive(Debug)]
struct DeclaredParameter {
    name: &'static str,
    info: TensorInfo,
    extent: PassExtent,
}

#[derive(Debug)]
struct DeclaredInput {
    name: &'static str,
    info: TensorInfo,
    device: Device,
}

#[derive(Debug)]
struct Tensor {
    origin: Origin,
    /// The tensor in each segment that uses it. The first is the segment that computes it.
    places: SmallVec<[(usize, GraphValue); 1]>,
}

#[derive(Debug)]
enum Origin {
    Constant(Buffer),
    Parameter(usize),
    Input(usize),
    Computed,
}

/// A segment while it is recorded.
#[derive(Debug)]
struct Segment {
    builder: GraphBuilder,
    extents: Vec<LiveExtent>,
    parameters: Vec<Option<Parameter>>,
    inputs: Vec<SegmentInput>,
    /// Tensors that are read after the segment.
    outputs: Vec<usize>,
}

/// The source of an input of a segment's graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SegmentInput {
    /// An input of the pass, by number.
    Pass(usize),
    /// A transfer, by number.
    Transfer(usize),
}

/// A value that later segments on another device, or of another graph on the same device, read.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    tensor: usize,
    /// The segment that computes it.
    pub(crate) from: usize,
    /// The number of the output of that segment.
    pub(crate) output: usize,
    /// The reading device.
    pub(crate) to: Device,
    /// The last segment that reads it.
    pub(crate) last: usize,
    /// Type and shape at the largest extents.
    pub(crate) info: TensorInfo,
    /// The extent that its rows follow.
    pub(crate) extent: Option<PassExtent>,
}

/// A recorded segment.
#[derive(Debug)]
pub(crate) struct RecordedSegment {
    pub(crate) graph: ComputeGraph,
    /// Its extents, in the order of the pass.
    pub(crate) extents: Vec<LiveExtent>,
    /// The parameters of the pass that it uses.
    pub(crate) parameters: Vec<Option<Parameter>>,
    /// The inputs of its graph.
    pub(crate) inputs: Vec<SegmentInput>,
}

/// A recorded pass.
#[derive(Debug)]
pub(crate) struct RecordedPass {
    pub(crate) segments: Vec<RecordedSegment>,
    pub(crate) transfers: Vec<Transfer>,
    /// The segment that computes the result, and the number of its output.
    pub(crate) result: (usize, usize),
}

impl PassRecorder {
    /// An empty pass. Ops without constants run on `device` until a constant was used.
    pub(crate) fn new(device: &Device) -> PassRecorder {
        PassRecorder {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            device: device.clone(),
            scopes: Vec::new(),
            extents: Vec::new(),
            parameters: Vec::new(),
            inputs: Vec::new(),
            tensors: Vec::new(),
            segments: Vec::new(),
            transfers: Vec::new(),
        }
    }

    /// Declares a live extent of at most `max` rows. All are declared before the first op.
    pub(crate) fn extent(&mut self, name: &'static str, max: usize) -> PassExtent {
        self.extents.push((name, max));
        PassExtent(self.extents.len() - 1)
    }

    /// Declares parameter number 0, 1, ... of the pass, with live rows. Segments that use it have one each.
    pub(crate) fn parameter(
        &mut self,
        name: &'static str,
        info: TensorInfo,
        extent: PassExtent,
    ) -> (usize, PassValue) {
        self.parameters.push(DeclaredParameter { name, info, extent });
        let number = self.parameters.len() - 1;
        (number, self.tensor(Origin::Parameter(number), info, SmallVec::new()))
    }

    /// Declares input number 0, 1, ... of the pass: a buffer of `device` that a session brings.
    pub(crate) fn input(&mut self, name: &'static str, info: TensorInfo, device: &Device) -> PassValue {
        self.inputs.push(DeclaredInput { name, info, device: device.clone() });
        self.tensor(Origin::Input(self.inputs.len() - 1), info, SmallVec::new())
    }

    /// Ends the recording. `result` is the result of the pass.
    pub(crate) fn finish(mut self, result: &PassValue) -> Result<RecordedPass> {
        let from = self.tensor_of(result)?.places.first().map(|(segment, _)| *segment).ok_or_else(foreign)?;
        let output = self.export(result.tensor, from)?;
        let PassRecorder { segments, tensors, transfers, .. } = self;
        let segments = segments.into_iter().enumerate().map(|(number, segment)| {
            let output = |tensor: &usize| {
                let tensor = tensors.get(*tensor)?;
                tensor.places.iter().find(|(segment, _)| *segment == number).map(|(_, value)| value)
            };
            let outputs: Option<Vec<&GraphValue>> = segment.outputs.iter().map(output).collect();
            let outputs = outputs.ok_or_else(foreign)?;
            let graph = segment.builder.finish(&outputs)?;
            let Segment { extents, parameters, inputs, .. } = segment;
            Ok(RecordedSegment { graph, extents, parameters, inputs })
        });
        let segments = segments.collect::<Result<_>>()?;
        Ok(RecordedPass { segments, transfers, result: (from, output) })
    }

    fn tensor(
        &mut self,
        origin: Origin,
        info: TensorInfo,
        places: SmallVec<[(usize, GraphValue); 1]>,
    ) -> PassValue {
        self.tensors.push(Tensor { origin, places });
        PassValue { pass: self.id, tensor: self.tensors.len() - 1, info }
    }

    /// Returns the tensor of a value. Values of other recorders have none.
    fn tensor_of(&self, value: &PassValue) -> Result<&Tensor> {
        let tensor = self.tensors.get(value.tensor).filter(|_| value.pass == self.id);
        tensor.ok_or_else(foreign)
    }

    /// Returns the segment of the next op, which has these operands.
    fn segment(&mut self, operands: &[&[&PassValue]]) -> Result<usize> {
        for value in operands.iter().copied().flatten() {
            let device = match &self.tensor_of(value)?.origin {
                Origin::Constant(buffer) => buffer.device(),
                Origin::Input(number) => &self.inputs.get(*number).ok_or_else(foreign)?.device,
                Origin::Parameter(_) | Origin::Computed => continue,
            };
            self.device = device.clone();
        }
        if let Some(last) = self.segments.last()
            && last.builder.device().is_same(&self.device)
        {
            return Ok(self.segments.len() - 1);
        }
        let mut builder = GraphBuilder::new(&self.device);
        let extents = self.extents.iter().map(|(name, max)| builder.extent(*name, *max));
        let extents = extents.collect::<Result<_, _>>()?;
        self.scopes.iter().for_each(|label| builder.begin_scope(label));
        let (parameters, inputs) = (vec![None; self.parameters.len()], Vec::new());
        self.segments.push(Segment { builder, extents, parameters, inputs, outputs: Vec::new() });
        Ok(self.segments.len() - 1)
    }

    /// Returns values in segment `number`.
    fn locals(&mut self, values: &[&PassValue], number: usize) -> Result<SmallVec<[GraphValue; 4]>> {
        values.iter().map(|value| self.local(value, number)).collect()
    }

    /// Returns a value in segment `number`.
    fn local(&mut self, value: &PassValue, number: usize) -> Result<GraphValue> {
        let known = self
            .tensor_of(value)?
            .places
            .iter()
            .find(|(segment, _)| *segment == number)
            .map(|(_, value)| *value);
        let local = match known {
            Some(local) => local,
            None => {
                let local = self.bring(value.tensor, number)?;
                let tensor = self.tensors.get_mut(value.tensor).ok_or_else(foreign)?;
                tensor.places.push((number, local));
                local
            }
        };
        if local.info().shape == value.info.shape {
            return Ok(local);
        }
        let segment = self.segments.get_mut(number).ok_or_else(foreign)?;
        Ok(segment.builder.reshape(&local, value.info.shape)?)
    }

    /// Declares a tensor in segment `number`, which is the last.
    fn bring(&mut self, tensor: usize, number: usize) -> Result<GraphValue> {
        let Tensor { origin, places } = self.tensors.get(tensor).ok_or_else(foreign)?;
        let segment = self.segments.get_mut(number).ok_or_else(foreign)?;
        match origin {
            Origin::Constant(buffer) => Ok(segment.builder.constant(buffer)),
            Origin::Parameter(declared) => {
                let DeclaredParameter { name, info, extent } =
                    self.parameters.get(*declared).ok_or_else(foreign)?;
                let extent = *segment.extents.get(extent.0).ok_or_else(foreign)?;
                let (parameter, value) = segment.builder.live_parameter(*name, *info, extent)?;
                if let Some(slot) = segment.parameters.get_mut(*declared) {
                    *slot = Some(parameter);
                }
                Ok(value)
            }
            Origin::Input(declared) => {
                let DeclaredInput { name, info, .. } = self.inputs.get(*declared).ok_or_else(foreign)?;
                segment.inputs.push(SegmentInput::Pass(*declared));
                Ok(segment.builder.input(*name, *info))
            }
            Origin::Computed => {
                let &(from, _) = places.first().ok_or_else(foreign)?;
                let transfer = self.transfer(tensor, from, number)?;
                let Transfer { info, extent, .. } =
                    self.transfers.get(transfer).cloned().ok_or_else(foreign)?;
                let segment = self.segments.get_mut(number).ok_or_else(foreign)?;
                segment.inputs.push(SegmentInput::Transfer(transfer));
                let extent = extent.and_then(|extent| segment.extents.get(extent.0).copied());
                match extent {
                    Some(extent) => Ok(segment.builder.live_input("transferred", info, extent)?),
                    None => Ok(segment.builder.input("transferred", info)),
                }
            }
        }
    }

    /// Returns the transfer of a tensor that segment `from` computes to the device of segment `to`.
    fn transfer(&mut self, tensor: usize, from: usize, to: usize) -> Result<usize> {
        let device = self.segments.get(to).ok_or_else(foreign)?.builder.device().clone();
        let known = self.transfers.iter_mut().enumerate();
        for (number, transfer) in known.filter(|(_, transfer)| transfer.tensor == tensor) {
            if transfer.to.is_same(&device) {
                transfer.last = to;
                return Ok(number);
            }
        }
        let output = self.export(tensor, from)?;
        let (segment, tensors) = (self.segments.get(from).ok_or_else(foreign)?, &self.tensors);
        let value = tensors.get(tensor).and_then(|tensor| tensor.places.first()).ok_or_else(foreign)?.1;
        let extent = segment.builder.extent_of(&value)?;
        let extent = extent.and_then(|extent| segment.extents.iter().position(|known| *known == extent));
        let info = TensorInfo::new(value.info().dtype, value.info().shape);
        let extent = extent.map(PassExtent);
        self.transfers.push(Transfer { tensor, from, output, to: device, last: to, info, extent });
        Ok(self.transfers.len() - 1)
    }

    /// Returns the number of the output of segment `from` that is `tensor`.
    fn export(&mut self, tensor: usize, from: usize) -> Result<usize> {
        let outputs = &mut self.segments.get_mut(from).ok_or_else(foreign)?.outputs;
        if let Some(known) = outputs.iter().position(|output| *output == tensor) {
            return Ok(known);
        }
        outputs.push(tensor);
        Ok(outputs.len() - 1)
    }
}

/// The error of a value that the pass does not have.
fn foreign() -> Error {
    Error::Device(silicide_core::Error::WrongGraph { what: "pass" })
}

/// The errors of a recorder are those of devices.
fn device_error(error: Error) -> silicide_core::Error {
    match error {
        Error::Device(error) => error,
        error => silicide_core::Error::BadParameter { op: "pass", what: error.to_string() },
    }
}

impl Recorder for PassRecorder {
    type Value = PassValue;

    fn device(&self) -> &Device {
        &self.device
    }

    fn constant(&mut self, buffer: &Buffer) -> PassValue {
        if !self.device.is_same(buffer.device()) {
            self.device = buffer.device().clone();
        }
        let info = TensorInfo::new(buffer.dtype(), buffer.shape());
        self.tensor(Origin::Constant(buffer.clone()), info, SmallVec::new())
    }

    fn info(&self, value: &PassValue) -> TensorInfo {
        value.info
    }

    fn reshape(&mut self, value: &PassValue, shape: Shape) -> silicide_core::Result<PassValue> {
        let tensor = self.tensor_of(value).map_err(device_error)?;
        match tensor.places.last() {
            // The segment's builder checks the view.
            Some(&(number, local)) => {
                let segment = self.segments.get_mut(number).ok_or_else(|| device_error(foreign()))?;
                segment.builder.reshape(&local, shape)?;
            }
            None if shape.elements() != value.info.elements() => {
                let expected = format!("{} elements", value.info.elements());
                return Err(silicide_core::Error::Shape {
                    op: "reshape",
                    slot: "shape",
                    expected,
                    got: shape,
                });
            }
            None => {}
        }
        Ok(PassValue { info: TensorInfo { shape, ..value.info }, ..*value })
    }

    fn run<O: Op>(
        &mut self,
        op: O,
        inputs: &[&PassValue],
    ) -> silicide_core::Result<SmallVec<[PassValue; 2]>> {
        let number = self.segment(&[inputs]).map_err(device_error)?;
        let locals = self.locals(inputs, number).map_err(device_error)?;
        let locals: SmallVec<[&GraphValue; 4]> = locals.iter().collect();
        let segment = self.segments.get_mut(number).ok_or_else(|| device_error(foreign()))?;
        let outputs = segment.builder.run(op, &locals)?;
        let place = |value: GraphValue| {
            self.tensor(Origin::Computed, value.info(), SmallVec::from_slice(&[(number, value)]))
        };
        Ok(outputs.into_iter().map(place).collect())
    }

    fn run_into<O: Op>(
        &mut self,
        op: O,
        inputs: &[&PassValue],
        outputs: &[&PassValue],
    ) -> silicide_core::Result<()> {
        let number = self.segment(&[inputs, outputs]).map_err(device_error)?;
        let read = self.locals(inputs, number).map_err(device_error)?;
        let written = self.locals(outputs, number).map_err(device_error)?;
        let read: SmallVec<[&GraphValue; 4]> = read.iter().collect();
        let written: SmallVec<[&GraphValue; 4]> = written.iter().collect();
        let segment = self.segments.get_mut(number).ok_or_else(|| device_error(foreign()))?;
        segment.builder.run_into(op, &read, &written)
    }

    fn scope<T>(&mut self, label: &'static str, f: impl FnOnce(&mut PassRecorder) -> T) -> T {
        let device = self.device.clone();
        self.scopes.push(label);
        if let Some(segment) = self.segments.last_mut() {
            segment.builder.begin_scope(label);
        }
        let result = f(self);
        if let Some(segment) = self.segments.last_mut() {
            segment.builder.end_scope();
        }
        self.scopes.pop();
        self.device = device;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::DType;

    #[test]
    fn values_of_another_recorder_are_refused() {
        let cpu = Device::cpu().unwrap();
        let buffer = Buffer::new(&cpu, DType::F32, 4).unwrap();
        let (mut first, mut second) = (PassRecorder::new(&cpu), PassRecorder::new(&cpu));
        let (own, foreign) = (first.constant(&buffer), second.constant(&buffer));
        let refused = |result: silicide_core::Result<PassValue>| {
            matches!(result, Err(silicide_core::Error::WrongGraph { .. }))
        };
        assert!(refused(silicide_ops::add(&mut first, &own, &foreign)));
        assert!(refused(first.reshape(&foreign, Shape::new(&[2, 2]).unwrap())));
        let sum = silicide_ops::add(&mut first, &own, &own).unwrap();
        assert!(matches!(second.finish(&sum), Err(Error::Device(silicide_core::Error::WrongGraph { .. }))));
    }
}
