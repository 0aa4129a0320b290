//! Lowering: a kernel's plan becomes commands. Bindings are cut to what the device allows, offsets become
//! parameter words, accesses become hazards.

use super::recording::{Recording, binding};
use crate::buffer::{Buffer, Storage};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::kernel::{Access, Arg, DynOp, Launch, Operand, Plan, Step};
use crate::memory::{Purpose, Request};
use silicide_hal::{Binding, Command, MemoryKind, Program};
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// An op with the buffers it is called on.
pub(super) struct Call<'a> {
    pub(super) op: &'a dyn DynOp,
    pub(super) kernel: &'static str,
    pub(super) inputs: &'a [&'a Buffer],
    pub(super) outputs: &'a [&'a Buffer],
}

/// Where an argument lies.
struct Place {
    storage: Arc<Storage>,
    /// In the storage.
    range: Range<usize>,
    access: Access,
    dtype: DType,
}

/// Records the steps of a plan.
pub(super) fn lower(device: &Device, recording: &mut Recording, call: &Call<'_>, plan: &Plan) -> Result<()> {
    let scratch = scratch(device, recording, plan)?;
    for step in &plan.steps {
        match step {
            Step::Dispatch(launch) => dispatch(device, recording, call, &scratch, launch)?,
            Step::Copy { from, to } => {
                let (from, to) = (call.locate(&scratch, from)?, call.locate(&scratch, to)?);
                if from.range.len() != to.range.len() {
                    return Err(call.defect(format!(
                        "a copy of {} bytes to {}",
                        from.range.len(),
                        to.range.len()
                    )));
                }
                let (src, dst) = (binding(&from.storage, &from.range)?, binding(&to.storage, &to.range)?);
                recording.touch(&from.storage, from.range, Access::Read)?;
                recording.touch(&to.storage, to.range, Access::Write)?;
                recording.order();
                recording.list.commands.push(Command::Copy { src, dst });
                recording.tally.transfers += 1;
            }
            Step::Fill { to, value } => {
                let to = call.locate(&scratch, to)?;
                fill(recording, call, to, *value)?;
            }
        }
    }
    recording.kept.extend(scratch);
    Ok(())
}

fn fill(recording: &mut Recording, call: &Call<'_>, to: Place, value: u32) -> Result<()> {
    let dst = binding(&to.storage, &to.range)?;
    if dst.offset % 4 != 0 || dst.bytes % 4 != 0 {
        return Err(call.defect(format!("a fill of bytes {}..+{}", dst.offset, dst.bytes)));
    }
    recording.touch(&to.storage, to.range, Access::Write)?;
    recording.order();
    recording.list.commands.push(Command::Fill { dst, value });
    recording.tally.transfers += 1;
    Ok(())
}

/// Scratch buffers of a plan, filled with NaN where the device was opened so.
fn scratch(device: &Device, recording: &mut Recording, plan: &Plan) -> Result<SmallVec<[Buffer; 2]>> {
    let mut buffers = SmallVec::new();
    for &bytes in &plan.scratch {
        let bytes = bytes.max(4).checked_next_multiple_of(4).unwrap_or(bytes);
        let shape = Shape::new(&[bytes]).map_err(|error| Error::bad_shape("scratch", error))?;
        let (purpose, kind) = (Purpose::Activations, MemoryKind::Shared);
        let request = Request { bytes, purpose, kind, zeroed: false };
        let shelf = Arc::<_>::clone(device.shelf()) as _;
        let buffer = Buffer::from_request(device, shelf, DType::U8, shape, request)?;
        if device.poisons_scratch() {
            let dst = binding(buffer.storage(), &buffer.range())?;
            recording.touch(buffer.storage(), buffer.range(), Access::Write)?;
            recording.order();
            recording.list.commands.push(Command::Fill { dst, value: u32::MAX });
        }
        buffers.push(buffer);
    }
    Ok(buffers)
}

fn dispatch(
    device: &Device,
    recording: &mut Recording,
    call: &Call<'_>,
    scratch: &[Buffer],
    launch: &Launch,
) -> Result<()> {
    let limits = &device.info().limits;
    let within =
        launch.grid.iter().zip(&limits.max_grid).all(|(&extent, &limit)| extent > 0 && extent <= limit);
    if !within {
        return Err(call.defect(format!("a grid of {:?}", launch.grid)));
    }
    let pipeline = device.kernels().pipeline(&launch.program)?;
    let wgsl = matches!(launch.program, Program::Wgsl(_));
    let mut bindings: SmallVec<[Binding; 8]> = SmallVec::new();
    let mut params: SmallVec<[u32; 32]> = SmallVec::new();
    for arg in &launch.args {
        let place = call.locate(scratch, arg)?;
        let mut bound = binding(&place.storage, &place.range)?;
        if wgsl {
            // Devices bind from aligned offsets; the rest of the way is a parameter: in elements, or in bytes for
            // block formats, since an aligned offset need not lie between blocks.
            let skipped = bound.offset % limits.binding_alignment as u64;
            bound.offset -= skipped;
            bound.bytes = (bound.bytes + skipped).next_multiple_of(4);
            let unit = if place.dtype.is_block() { 1 } else { place.dtype.size() };
            params.push((skipped / unit as u64) as u32);
        }
        if bound.bytes > limits.max_binding as u64 {
            let (device, bytes) = (device.info().id.clone(), bound.bytes as usize);
            return Err(Error::TooLarge { device, what: "binding", bytes, limit: limits.max_binding });
        }
        bindings.push(bound);
        recording.touch(&place.storage, place.range, place.access)?;
    }
    params.extend_from_slice(&launch.params);
    if params.len() * 4 > limits.max_param_bytes || bindings.len() > limits.max_bindings as usize {
        recording.ranges.clear();
        return Err(call.defect(format!("{} parameter words and {} bindings", params.len(), bindings.len())));
    }
    recording.order();
    recording.list.dispatch(pipeline, launch.grid, &bindings, &params);
    recording.tally.launch(call.kernel);
    Ok(())
}

impl Call<'_> {
    fn locate(&self, scratch: &[Buffer], arg: &Arg) -> Result<Place> {
        let (buffer, access) = match arg.operand {
            Operand::Slot(i) => {
                let i = i as usize;
                let buffer =
                    self.inputs.get(i).or_else(|| self.outputs.get(i.wrapping_sub(self.inputs.len())));
                (buffer.copied(), self.op.slots().get(i).map(|slot| slot.access))
            }
            Operand::Scratch(i, access) => (scratch.get(i as usize), Some(access)),
        };
        let (Some(buffer), Some(access)) = (buffer, access) else {
            return Err(self.defect(format!("{:?}, which is not there", arg.operand)));
        };
        let is_scratch = matches!(arg.operand, Operand::Scratch(..));
        let bytes = if arg.bytes == usize::MAX { buffer.size().saturating_sub(arg.start) } else { arg.bytes };
        let inside = arg.start.checked_add(bytes).is_some_and(|end| end <= buffer.size()) && bytes > 0;
        let dtype = if is_scratch { DType::U32 } else { buffer.dtype() };
        if !inside || !arg.start.is_multiple_of(dtype.size()) {
            return Err(self.defect(format!("bytes {}..+{bytes} of {} bytes", arg.start, buffer.size())));
        }
        let start = buffer.offset() + arg.start;
        // A write of a part leaves the rest as it was.
        Ok(Place { storage: Arc::clone(buffer.storage()), range: start..start + bytes, access, dtype })
    }

    fn defect(&self, what: String) -> Error {
        Error::BadPlan { kernel: self.kernel, what }
    }
}
