//! Calls of named kernels: an op whose definition is the registered text, and the kernel that launches it.

use super::super::op::{Host, Io, Op, Outputs, Slot, TensorInfo};
use super::super::{Arg, Cost, Decline, Kernel, Plan};
use super::NamedKernel;
use crate::error::{Error, Result};
use silicide_hal::{DeviceInfo, Program};
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;

/// Arguments of a call: those that are read, and those that are written.
type SplitArguments<'a, T> = (SmallVec<[&'a T; 8]>, SmallVec<[&'a T; 8]>);

/// A call of a registered kernel: its parameter bytes and its grid. It is an [`Op`] whose inputs are the bindings that are read and
/// whose outputs are the others, in order. [`CommandEncoder::dispatch`](crate::CommandEncoder::dispatch) takes all of them in the order
/// of the bindings.
///
/// ```
/// # extern crate silicide_core as silicide;
/// use silicide::kernel::{Access, Grid, KernelText};
/// use silicide::{Buffer, CommandEncoder, Device, Error};
///
/// const TEXT: &str = "
/// struct Params { x: u32, y: u32, z: u32, factor: f32 }
/// var<immediate> p: Params;
/// @group(0) @binding(0) var<storage, read> x: array<f32>;
/// @group(0) @binding(1) var<storage, read_write> y: array<f32>;
/// @compute @workgroup_size(64) fn scale(@builtin(global_invocation_id) id: vec3<u32>) {
///     if id.x < p.x { y[id.x] = p.factor * x[id.x]; }
/// }";
///
/// let device = Device::best()?;
/// if device.info().is_gpu() {
///     let bindings = &[Access::Read, Access::ReadWrite];
///     let text = KernelText { name: "scale", text: TEXT, entry: "scale", bindings, param_bytes: 4 };
///     device.kernels().register(&text)?;
///     let (x, y) = (Buffer::from_slice(&device, [3], &[1.0f32, 2.0, 3.0])?, Buffer::from_slice(&device, [3], &[0.0f32; 3])?);
///     let call = device.kernels().named("scale")?.call(&0.5f32.to_le_bytes(), Grid::Threads([3, 1, 1]))?;
///     let mut encoder = CommandEncoder::new(&device);
///     encoder.dispatch(&call, &[&x, &y])?;
///     encoder.submit()?.wait()?;
///     assert_eq!(y.to_vec::<f32>()?, [0.5, 1.0, 1.5]);
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KernelCall {
    pub(super) kernel: NamedKernel,
    pub(super) words: SmallVec<[u32; 8]>,
    pub(super) grid: [u32; 3],
}

impl KernelCall {
    /// Returns the kernel.
    pub fn kernel(&self) -> NamedKernel {
        self.kernel
    }

    /// Splits arguments in the order of the bindings into inputs and outputs.
    pub(crate) fn split<'a, T>(&self, bindings: &[&'a T]) -> Result<SplitArguments<'a, T>> {
        let declared = self.kernel.bindings();
        if bindings.len() != declared.len() {
            let (op, expected, got) = (self.kernel.name(), declared.len(), bindings.len());
            return Err(Error::ArgumentCount { op, what: "bindings", expected, got });
        }
        let of = |writes: bool| {
            let these = bindings.iter().zip(declared).filter(move |(_, access)| access.writes() == writes);
            these.map(|(binding, _)| *binding).collect()
        };
        Ok((of(false), of(true)))
    }

    /// Compares the bindings that are read, or those that are written, with the sizes of their types. Bounds checks hold for bindings
    /// that are at least so long.
    fn check_bytes(&self, given: &[TensorInfo], is_written: bool) -> Result<()> {
        let bindings = self.kernel.bindings().iter().zip(&self.kernel.0.least_bytes).enumerate();
        let bindings = bindings.filter(|(_, (access, _))| access.writes() == is_written);
        for ((i, (_, &least)), info) in bindings.zip(given) {
            if info.bytes() < least as usize {
                let got = info.bytes();
                let what = format!(
                    "binding {i} has {got} bytes, expected at least the {least} bytes of its type in the text"
                );
                return Err(Error::BadParameter { op: self.kernel.name(), what });
            }
        }
        Ok(())
    }
}

impl Op for KernelCall {
    fn name(&self) -> &'static str {
        self.kernel.name()
    }

    fn slots(&self) -> &'static [Slot] {
        self.kernel.0.slots
    }

    /// Outputs are buffers that exist, of any type and shape.
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        self.check_bytes(inputs, false)?;
        let outputs = self.kernel.bindings().iter().filter(|access| access.writes());
        Ok(outputs.map(|_| TensorInfo::new(DType::U32, Shape::SCALAR)).collect())
    }

    fn check_outputs(&self, _: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        self.check_bytes(given, true)
    }

    /// There is none: the text is the definition.
    fn reference(&self, _: &[Host], _: &mut [Host]) {}

    fn ignores_later_rows(&self) -> bool {
        false
    }

    fn kernel_label(&self) -> Option<&'static str> {
        Some(self.kernel.name())
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = KernelCall>] {
        &[&Launcher]
    }
}

/// Launches the kernel of a call.
struct Launcher;

impl Kernel for Launcher {
    type Op = KernelCall;

    fn name(&self) -> &'static str {
        "named"
    }

    fn fits(&self, op: &KernelCall, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let is_over = |(got, limit): (&u32, u32)| *got > limit;
        if op.grid.iter().zip(on.limits.max_grid).any(is_over) {
            return Err(Decline(
                "its grid has more workgroups along an axis than the device's max_grid; split the call",
            ));
        }
        match &op.kernel.0.program {
            Program::Native(_) if on.is_gpu() => Err(Decline("a native function runs on the CPU only")),
            Program::Wgsl(_) if on.isa.is_some() => Err(Decline("the CPU runs native functions only")),
            Program::Native(_) => Ok(Cost::GOOD),
            Program::Wgsl(_) => {
                let aligned = on.limits.binding_alignment.min(256);
                let is_exact =
                    |info: &TensorInfo| info.alignment as usize >= aligned && info.bytes().is_multiple_of(4);
                match io.inputs.iter().chain(io.outputs).all(is_exact) {
                    true => Ok(Cost::GOOD),
                    false => Err(Decline(
                        "its bindings are whole words that begin at a multiple of the device's binding_alignment; copy the view",
                    )),
                }
            }
        }
    }

    fn plan(&self, op: &KernelCall, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        let args: SmallVec<[Arg; 8]> = op.kernel.0.order.iter().map(|&slot| Arg::slot(slot)).collect();
        Plan::launch(op.kernel.program().clone(), &args, &op.words, op.grid)
    }
}
