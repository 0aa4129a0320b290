//! Dispatches of WGSL texts that the program registered.

use super::{CommandEncoder, Dispatch, DispatchKind, KernelArg, RecordedBinding};
use crate::metal::{self, MTLSize};
use crate::{DType, MlxBuffer};
use silicide::kernel::{Grid, NamedKernel};
use smallvec::SmallVec;

/// An operand of a text.
pub(super) enum TextOperand<'a> {
    /// A buffer.
    Buffer(Box<MlxBuffer>),
    /// Constants.
    Bytes(&'a [u8]),
}

/// The grid of a dispatch.
#[derive(Clone, Copy)]
pub(super) struct TextGrid {
    /// What the extents count.
    pub(super) kind: DispatchKind,
    /// The extents.
    pub(super) size: MTLSize,
}

/// Something that a text can take.
pub(super) trait AsTextOperand {
    /// Returns it as an operand.
    fn operand(&self) -> TextOperand<'_>;
}

impl AsTextOperand for &MlxBuffer {
    fn operand(&self) -> TextOperand<'_> {
        TextOperand::Buffer(Box::new((*self).clone()))
    }
}

impl AsTextOperand for KernelArg<'_> {
    fn operand(&self) -> TextOperand<'_> {
        match self {
            KernelArg::Buffer(buffer) => TextOperand::Buffer(Box::new((*buffer).clone())),
            KernelArg::BufferWithOffset(buffer, offset) => from(buffer.metal_buffer(), *offset),
            KernelArg::Bytes(bytes) => TextOperand::Bytes(bytes),
        }
    }
}

impl AsTextOperand for RecordedBinding {
    fn operand(&self) -> TextOperand<'_> {
        match self {
            RecordedBinding::Buffer { metal_buffer, offset } => from(metal_buffer, *offset),
            RecordedBinding::Bytes(bytes) => TextOperand::Bytes(bytes),
        }
    }
}

/// Returns an allocation from a byte of it on; a view of no bytes, which every use refuses, if it has no such byte.
fn from(root: &metal::Buffer, offset: u64) -> TextOperand<'static> {
    let all = MlxBuffer::from_raw(root.clone(), DType::U8, vec![root.0.size()]);
    let bytes = usize::try_from(root.length().saturating_sub(offset)).unwrap_or(0);
    TextOperand::Buffer(Box::new(all.slice_view(offset, bytes)))
}

/// Returns operands by slot.
pub(super) fn views<T: AsTextOperand>(operands: &[(u64, T)]) -> Vec<(u64, TextOperand<'_>)> {
    operands.iter().map(|(slot, operand)| (*slot, operand.operand())).collect()
}

impl CommandEncoder {
    /// Dispatches a text: slots below the number of its bindings are buffers, and the bytes of one more are its parameters. A group has
    /// the size that the text states. An error fails the command buffer.
    pub(super) fn launch_text(
        &mut self,
        kernel: NamedKernel,
        name: &str,
        operands: &[(u64, TextOperand<'_>)],
        grid: TextGrid,
    ) {
        if let Err(text) = self.try_launch_text(kernel, name, operands, grid) {
            self.fail(format!("{name}: {text}"));
        }
    }

    fn try_launch_text(
        &mut self,
        kernel: NamedKernel,
        name: &str,
        operands: &[(u64, TextOperand<'_>)],
        grid: TextGrid,
    ) -> Result<(), String> {
        let TextGrid { kind, size } = grid;
        let declared = kernel.bindings();
        let mut buffers: Vec<Option<&MlxBuffer>> = vec![None; declared.len()];
        let mut params = Vec::new();
        for (slot, operand) in operands {
            let place = usize::try_from(*slot).ok().and_then(|slot| buffers.get_mut(slot));
            match (operand, place) {
                (TextOperand::Buffer(buffer), Some(place)) => *place = Some(buffer),
                (TextOperand::Buffer(_), None) => {
                    return Err(format!(
                        "a buffer at slot {slot}, and the text has {} bindings",
                        declared.len()
                    ));
                }
                (TextOperand::Bytes(bytes), None) => params.extend_from_slice(bytes),
                (TextOperand::Bytes(_), Some(_)) => {
                    return Err(format!("bytes at slot {slot}, which is a binding of the text"));
                }
            }
        }
        if let Some(missing) = buffers.iter().position(Option::is_none) {
            return Err(format!("nothing at slot {missing}, which is a binding of the text"));
        }
        let buffers: SmallVec<[&MlxBuffer; 8]> = buffers.into_iter().flatten().collect();
        let room = kernel.param_bytes();
        if params.len() > room {
            return Err(format!("{} bytes of parameters, and the text has room for {room}", params.len()));
        }
        params.resize(room, 0);
        let extents = [size.width, size.height, size.depth].map(|extent| u32::try_from(extent).unwrap_or(0));
        let threads = match kind {
            DispatchKind::Threads => Grid::Threads(extents),
            DispatchKind::ThreadGroups => Grid::Workgroups(extents),
        };
        let call = kernel.call(&params, threads).map_err(|error| error.to_string())?;
        let tensor = |buffer: &&MlxBuffer| {
            buffer
                .tensor_at(0, silicide::DType::U8, &[buffer.data_byte_len()])
                .map_err(|error| error.to_string())
        };
        let tensors = buffers.iter().map(tensor).collect::<Result<Vec<_>, String>>()?;
        let of = |writes: bool| {
            let these = buffers.iter().zip(declared).filter(move |(_, access)| access.writes() == writes);
            these.map(|(buffer, _)| *buffer)
        };
        let mut dispatch = Dispatch::new(name, 1, &[], &[]);
        dispatch.reads = of(false).collect();
        dispatch.writes = of(true).collect();
        dispatch.grid = (size, MTLSize::new(1, 1, 1), kind);
        let program = move |encoder: &mut silicide::CommandEncoder| {
            let bindings: SmallVec<[&silicide::Buffer; 8]> = tensors.iter().collect();
            encoder.dispatch(&call, &bindings)
        };
        self.dispatch(dispatch.annotated(), program).map_err(|error| error.to_string())
    }
}
