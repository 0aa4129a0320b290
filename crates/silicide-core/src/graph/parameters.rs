//! Parameters: numbers that a session sets before a replay, such as a position or the tokens of a batch.
//!
//! They lie in one small host-visible buffer of the session, each in a range of its own. Setting one writes to a copy on the
//! host. If any has changed, the next replay copies all of them, after it has waited for earlier replays of the session, which may
//! still read the old values. Neither allocates.

use super::compute::ComputeGraph;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::TensorInfo;
use crate::memory::{ALIGNMENT, Purpose, Request};
use silicide_hal::MemoryKind;
use silicide_quant::{DType, Element, Shape};
use std::ops::Range;
use std::sync::Arc;

/// A parameter of a graph. [`GraphBuilder::parameter`](super::GraphBuilder::parameter) returns it; sessions set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// The graph that it belongs to.
    pub(super) graph: u64,
    pub(super) number: u32,
}

/// A parameter of a graph.
#[derive(Clone, Debug)]
pub(super) struct ParameterSlot {
    pub(super) name: String,
    pub(super) info: TensorInfo,
    /// Its first byte in the memory of parameters.
    pub(super) offset: usize,
    /// The extent that its first axis follows.
    pub(super) live: Option<u32>,
}

impl ParameterSlot {
    /// Its first `elements` words in the memory of parameters.
    fn words(&self, elements: usize) -> Range<usize> {
        let first = self.offset / 4;
        first..first.saturating_add(elements)
    }
}

impl ComputeGraph {
    /// Adds a parameter. Elements are words of 32 bits.
    pub(super) fn push_parameter(
        &mut self,
        name: String,
        info: TensorInfo,
        live: Option<u32>,
    ) -> Result<Parameter> {
        let op = "parameter";
        if !matches!(info.dtype, DType::U32 | DType::I32 | DType::F32) {
            let expected = "u32, i32 or f32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "value", expected, got: info.dtype });
        }
        let bytes = info.shape.bytes(info.dtype).map_err(|error| Error::bad_shape(op, error))?;
        let offset = self.parameter_bytes().checked_next_multiple_of(ALIGNMENT);
        let end = offset.and_then(|offset| offset.checked_add(bytes)).unwrap_or(usize::MAX);
        let limit = self.device.info().limits.max_block;
        // rule: parameter-size
        if end > limit {
            let device = self.device.info().id.clone();
            return Err(Error::TooLarge { device, what: op, bytes: end, limit });
        }
        let (info, offset) = (TensorInfo::new(info.dtype, info.shape), offset.unwrap_or(0));
        let number = self.parameters.len() as u32;
        self.parameters.push(ParameterSlot { name, info, offset, live });
        Ok(Parameter { graph: self.id, number })
    }

    /// Its parameters, in the order in which they were named.
    pub fn parameters(&self) -> impl Iterator<Item = (Parameter, &str, TensorInfo)> {
        let keys = (0..).map(|number| Parameter { graph: self.id, number });
        keys.zip(&self.parameters).map(|(key, slot)| (key, slot.name.as_str(), slot.info))
    }

    /// Bytes of a session's parameters.
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |last| last.offset.saturating_add(last.info.bytes()))
    }
}

/// The parameters of one session.
#[derive(Debug)]
pub(super) struct Parameters {
    memory: Buffer,
    /// Their values.
    words: Vec<u32>,
    /// Whether the device's memory has something else.
    changed: bool,
}

impl Parameters {
    /// Memory for the parameters of a graph, all of them zero; nothing for a graph without.
    pub(super) fn new(device: &Device, graph: &ComputeGraph) -> Result<Option<Parameters>> {
        let bytes = graph.parameter_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        let (purpose, kind) = (Purpose::Activations, MemoryKind::Shared);
        let request = Request { bytes, purpose, kind, zeroed: false };
        let shape = Shape::new(&[bytes / 4]).map_err(|error| Error::bad_shape("parameter", error))?;
        let allocator = Arc::<_>::clone(device.memory()) as _;
        let memory = Buffer::from_request(device, allocator, DType::U32, shape, request)?;
        memory.ensure_allocated()?;
        Ok(Some(Parameters { memory, words: vec![0; bytes / 4], changed: true }))
    }

    /// The memory of a parameter.
    pub(super) fn buffer(&self, slot: &ParameterSlot, shape: Shape) -> Result<Buffer> {
        self.memory.within(slot.offset, slot.info.dtype, shape)
    }

    /// Sets a parameter to values of its own type: all elements, or the first `live` ones.
    pub(super) fn set<T: Element>(&mut self, slot: &ParameterSlot, live: usize, values: &[T]) -> Result<()> {
        if T::DTYPE != slot.info.dtype {
            let (op, expected) = ("set", slot.info.dtype.to_string());
            return Err(Error::DTypeMismatch { op, slot: "values", expected, got: T::DTYPE });
        }
        let words: &[u32] = bytemuck::cast_slice(values);
        let fits = words.len() == live || words.len() == slot.info.elements();
        let Some(place) = self.words.get_mut(slot.words(words.len())).filter(|_| fits) else {
            return Err(Error::SizeMismatch { what: "set", expected: live * 4, got: size_of_val(words) });
        };
        if place != words {
            place.copy_from_slice(words);
            self.changed = true;
        }
        Ok(())
    }

    /// Returns the first `elements` words of a parameter, as they were set.
    pub(super) fn get(&self, slot: &ParameterSlot, elements: usize) -> Option<&[u32]> {
        self.words.get(slot.words(elements))
    }

    /// Copies changed values to the device. Waits for a replay that still reads the old ones.
    pub(super) fn bring(&mut self) -> Result<()> {
        if self.changed {
            self.memory.copy_in(&self.words)?;
            self.changed = false;
        }
        Ok(())
    }
}
