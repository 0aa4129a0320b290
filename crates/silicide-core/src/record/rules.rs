//! The rules of a call: what the arguments of an op satisfy before any of its steps is recorded.
//!
//! [`CommandEncoder`](crate::CommandEncoder) checks a call when it is recorded. [`GraphBuilder`](crate::GraphBuilder)
//! checks it when it is captured, as far as its memory is known; [`GraphExecutor`](crate::GraphExecutor) checks it after all
//! passes, and a session checks it with the buffers that it binds. All of them call this module, so what the encoder
//! refuses, a graph refuses with the same error.
//!
//! Each check has a name in a `// rule:` comment. `scripts/check-rules` removes one check at a time and shows that a test
//! fails without it. Checks of a plan's steps are in `lower.rs`, under the same kind of comment.

use crate::buffer::{Buffer, StorageId};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, DynOp, Outputs, Slot, TensorInfo};
use smallvec::SmallVec;
use std::ops::Range;

/// The memory that an argument lies in. Different memories share no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Memory {
    /// A storage.
    Storage(StorageId),
    /// The buffer that a session binds to an input of a graph, by number.
    Input(usize),
    /// The parameters of a session.
    Parameters,
    /// A value in the arena of a session, by number.
    Value(u32),
}

/// A byte range of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) memory: Memory,
    pub(crate) range: Range<usize>,
}

impl Extent {
    /// The bytes of a buffer.
    pub(crate) fn of(buffer: &Buffer) -> Extent {
        Extent { memory: Memory::Storage(buffer.storage_id()), range: buffer.range() }
    }

    /// Whether the two share a byte.
    pub(crate) fn overlaps(&self, other: &Extent) -> bool {
        self.memory == other.memory
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

/// An argument of a call, as far as the rules are concerned.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) info: TensorInfo,
    pub(crate) extent: Extent,
    pub(crate) writable: bool,
}

/// Arguments of one call.
pub(crate) type Arguments = SmallVec<[Argument; 4]>;

impl Argument {
    /// Describes a buffer that is used on `device`, and allocates its memory.
    pub(crate) fn of(device: &Device, buffer: &Buffer, op: &'static str) -> Result<Argument> {
        check_device(device, buffer, op)?;
        let (info, writable) = (buffer.info()?, buffer.is_writable()?);
        Ok(Argument { info, extent: Extent::of(buffer), writable })
    }

    /// Describes buffers that are used on `device`.
    pub(crate) fn all(device: &Device, buffers: &[&Buffer], op: &'static str) -> Result<Arguments> {
        buffers.iter().map(|buffer| Argument::of(device, buffer, op)).collect()
    }
}

/// Types and shapes of arguments.
pub(crate) fn infos(arguments: &[Argument]) -> SmallVec<[TensorInfo; 4]> {
    arguments.iter().map(|argument| argument.info).collect()
}

/// The output slots of an op.
pub(crate) fn output_slots(op: &dyn DynOp) -> impl Iterator<Item = &'static Slot> + use<> {
    op.slots().iter().filter(|slot| slot.access.writes())
}

/// Refuses a buffer of another device.
pub(crate) fn check_device(device: &Device, buffer: &Buffer, what: &'static str) -> Result<()> {
    let same = buffer.device().is_same(device);
    // rule: device
    if !same {
        let (expected, got) = (device.info().id.clone(), buffer.device().info().id.clone());
        return Err(Error::WrongDevice { what, expected, got });
    }
    Ok(())
}

/// Refuses values and parameters of another graph: `given` is the identity that they carry.
pub(crate) fn check_graph(graph: u64, given: u64, what: &'static str) -> Result<()> {
    // rule: graph
    if graph != given {
        return Err(Error::WrongGraph { what });
    }
    Ok(())
}

/// Checks the inputs of a call and returns types and shapes of its outputs.
pub(crate) fn check_inputs(op: &dyn DynOp, inputs: &[Argument]) -> Result<Outputs> {
    let expected = op.slots().iter().filter(|slot| slot.access == Access::Read).count();
    let got = inputs.len();
    // rule: input-count
    if got != expected {
        return Err(Error::ArgumentCount { op: op.name(), what: "inputs", expected, got });
    }
    inputs.iter().try_for_each(check_alignment)?;
    op.infer(&infos(inputs))
}

/// Checks that a recorder can make the outputs of a call itself, and returns the bytes of each.
pub(crate) fn check_new_outputs(
    device: &Device,
    op: &dyn DynOp,
    inferred: &[TensorInfo],
) -> Result<SmallVec<[usize; 2]>> {
    let expected = output_slots(op).count();
    let is_read = output_slots(op).any(|slot| slot.access == Access::ReadWrite);
    // rule: new-output
    if is_read || inferred.len() != expected {
        // Nothing has written what the op would read, or the shape rule of the op does not match its slots.
        let got = if is_read { 0 } else { inferred.len() };
        return Err(Error::ArgumentCount { op: op.name(), what: "outputs", expected, got });
    }
    inferred.iter().map(|info| new_bytes(device, info)).collect()
}

/// The bytes of a new tensor, which one allocation of the device can hold.
fn new_bytes(device: &Device, info: &TensorInfo) -> Result<usize> {
    let bytes = info.shape.bytes(info.dtype).map_err(|error| Error::bad_shape("output", error))?;
    // rule: output-bytes
    if bytes == 0 {
        return Err(Error::ZeroSize { what: "output" });
    }
    let limit = device.info().limits.max_block;
    // rule: output-limit
    if bytes > limit {
        let device = device.info().id.clone();
        return Err(Error::TooLarge { device, what: "allocation", bytes, limit });
    }
    Ok(bytes)
}

/// Checks the outputs that a call is given.
pub(crate) fn check_outputs(
    op: &dyn DynOp,
    inputs: &[Argument],
    inferred: &[TensorInfo],
    outputs: &[Argument],
) -> Result<()> {
    let expected = output_slots(op).count();
    let got = if inferred.len() == expected { outputs.len() } else { inferred.len() };
    // rule: output-count
    if got != expected {
        return Err(Error::ArgumentCount { op: op.name(), what: "outputs", expected, got });
    }
    for output in outputs {
        check_alignment(output)?;
        // rule: read-only
        if !output.writable {
            return Err(Error::ReadOnly { what: op.name() });
        }
    }
    op.check_outputs(inferred, &infos(outputs))?;
    check_aliasing(op, inputs, outputs)
}

/// Kernels read and write whole elements. Imported memory begins at any address, and an allocator may hand it out.
fn check_alignment(argument: &Argument) -> Result<()> {
    let TensorInfo { dtype, alignment, .. } = argument.info;
    let (what, bytes, needed) = ("argument", argument.extent.range.start, dtype.alignment());
    // rule: alignment
    if (alignment as usize) < needed {
        return Err(Error::Misaligned { what, bytes, alignment: needed, dtype });
    }
    Ok(())
}

/// Outputs share no bytes with each other. An output shares bytes with an input only if the slot allows it, and then
/// both have the same bytes and the same type.
fn check_aliasing(op: &dyn DynOp, inputs: &[Argument], outputs: &[Argument]) -> Result<()> {
    let slots = op.slots();
    let name = |index: usize| slots.get(index).map_or("", |slot| slot.name);
    for (i, output) in outputs.iter().enumerate() {
        let slot = inputs.len() + i;
        let in_place = slots.get(slot).map_or(0, |slot| slot.in_place);
        for (j, input) in inputs.iter().enumerate() {
            let allowed = in_place & 1u32.checked_shl(j as u32).unwrap_or(0) != 0;
            let same = output.extent == input.extent && output.info.dtype == input.info.dtype;
            // rule: aliasing-input
            if output.extent.overlaps(&input.extent) && !(allowed && same) {
                return Err(Error::Aliasing { op: op.name(), output: name(slot), other: name(j) });
            }
        }
        for (k, other) in outputs.iter().enumerate().take(i) {
            // rule: aliasing-output
            if output.extent.overlaps(&other.extent) {
                let (output, other) = (name(slot), name(inputs.len() + k));
                return Err(Error::Aliasing { op: op.name(), output, other });
            }
        }
    }
    Ok(())
}
