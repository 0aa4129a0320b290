//! Ops: *what* is computed. An op has named slots with their access, a shape rule, and a slow obvious reference
//! in f64 that defines it. How it is computed is the business of its kernels ([`Kernel`]).

use super::{Cost, Decline, Kernel, Plan};
use crate::error::{Error, Result};
use silicide_hal::{Access, DeviceInfo};
use silicide_quant::{DType, Shape};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;

/// A named argument of an op. Inputs (read) come first, then outputs (written).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its name, for messages.
    pub name: &'static str,
    /// How it is touched.
    pub access: Access,
    /// For an output: inputs (as bits, input i is `1 << i`) that it may share its exact bytes with.
    pub in_place: u32,
}

impl Slot {
    /// An input.
    pub const fn input(name: &'static str) -> Slot {
        Slot { name, access: Access::Read, in_place: 0 }
    }
    /// An output in memory of its own.
    pub const fn output(name: &'static str) -> Slot {
        Slot { name, access: Access::Write, in_place: 0 }
    }
    /// An output that may be exactly one of the inputs whose bits are set.
    pub const fn output_over(name: &'static str, inputs: u32) -> Slot {
        Slot { name, access: Access::Write, in_place: inputs }
    }
    /// An output of which a part is written, or that is read too: a cache, an accumulator.
    pub const fn update(name: &'static str) -> Slot {
        Slot { name, access: Access::ReadWrite, in_place: 0 }
    }
}

/// The type, shape and alignment of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorInfo {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// The largest power of two, at most 256, that divides the argument's byte offset in its allocation.
    pub alignment: u32,
}

impl TensorInfo {
    /// An argument at the start of its own allocation.
    pub fn new(dtype: DType, shape: Shape) -> TensorInfo {
        TensorInfo { dtype, shape, alignment: 256 }
    }
    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }
    /// Returns the number of bytes, or `usize::MAX` if no buffer can have this shape: too large, or rows that end inside a block.
    pub fn bytes(&self) -> usize {
        self.shape.bytes(self.dtype).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// Types and shapes of an op's outputs.
pub type Outputs = SmallVec<[TensorInfo; 2]>;

/// All arguments of one call, as selection and planning see them.
#[derive(Clone, Copy, Debug)]
pub struct Io<'a> {
    /// Inputs, in slot order.
    pub inputs: &'a [TensorInfo],
    /// Outputs, in slot order.
    pub outputs: &'a [TensorInfo],
}

impl Io<'_> {
    /// Input `i`; ops are only planned after their arguments were counted, so a missing one is a scalar.
    pub fn input(&self, i: usize) -> TensorInfo {
        self.inputs.get(i).copied().unwrap_or(TensorInfo::new(DType::U8, Shape::SCALAR))
    }
    /// Output `i`, likewise.
    pub fn output(&self, i: usize) -> TensorInfo {
        self.outputs.get(i).copied().unwrap_or(TensorInfo::new(DType::U8, Shape::SCALAR))
    }
}

impl fmt::Display for Io<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, info) in self.inputs.iter().enumerate() {
            write!(f, "{}{info}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str(" -> ")?;
        for (i, info) in self.outputs.iter().enumerate() {
            write!(f, "{}{info}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// A tensor on the host with exact values, for references.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// The element type the values are (or will be) stored as.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Values, row-major.
    pub values: Vec<f64>,
}

/// Bytes moved and arithmetic done, for roofline reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes that must be read or written at least once.
    pub bytes: u64,
    /// Floating-point or integer operations.
    pub flops: u64,
}

impl Work {
    /// Every argument touched once, and `flops` operations.
    pub fn streaming(io: &Io<'_>, flops: u64) -> Work {
        let bytes = io.inputs.iter().chain(io.outputs).map(|info| info.bytes() as u64);
        let bytes = bytes.fold(0, u64::saturating_add);
        Work { bytes, flops }
    }
}

/// How far a kernel may be from the reference, after the reference was rounded to the output's type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Normalised mean square error: sum of squared differences over sum of squared reference values.
    pub nmse: f64,
    /// Largest absolute difference of one element, relative to the largest reference magnitude of the tensor.
    pub max: f64,
}

impl Tolerance {
    /// Not a bit of difference.
    pub const EXACT: Tolerance = Tolerance { nmse: 0.0, max: 0.0 };

    /// Returns the tolerance of f32 arithmetic with a few roundings, stored as `dtype`.
    pub fn rounding(dtype: DType) -> Tolerance {
        match dtype {
            DType::F64 | DType::F32 => Tolerance { nmse: 1e-11, max: 1e-5 },
            DType::F16 => Tolerance { nmse: 1e-6, max: 2e-3 },
            DType::BF16 => Tolerance { nmse: 5e-5, max: 1.6e-2 },
            _ => Tolerance::EXACT,
        }
    }
}

/// An operation. Implementors are small plain values that hold the op's parameters. `Debug` shows all of them. Equal values compute the
/// same bits, and graphs compute them once: where results of -0 and 0 differ, `PartialEq` compares bits.
///
/// An op states its arguments, its output shapes and an f64 reference; each [`Kernel`] is one way to compute it.
///
/// ```
/// # mod silicide { pub use silicide_core::*; pub use silicide_quant::DType; }
/// use silicide::hal::{DeviceInfo, LaunchShape, NativeKernel, NativeVariant, Needs, Program, Tile, cpu::Isa};
/// use silicide::kernel::{Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo};
/// use silicide::{Buffer, CommandEncoder, DType, Device, Error, Recorder};
///
/// /// `y = x + c`.
/// #[derive(Debug, PartialEq)]
/// struct Shift(f32);
///
/// impl Op for Shift {
///     fn name(&self) -> &'static str {
///         "shift"
///     }
///     fn slots(&self) -> &'static [Slot] {
///         const { &[Slot::input("x"), Slot::output("y")] }
///     }
///     fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs, Error> {
///         Ok(inputs.iter().copied().collect())
///     }
///     fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
///         outputs[0].values = inputs[0].values.iter().map(|x| x + self.0 as f64).collect();
///     }
///     fn kernels() -> &'static [&'static dyn Kernel<Op = Shift>] {
///         &[&OnCpu]
///     }
/// }
///
/// /// One tile for all elements.
/// unsafe fn shift(tile: &Tile<'_>) {
///     let all = 0..tile.param(0) as usize;
///     // SAFETY: `needs` requires two f32 arrays of `param(0)` elements, and for one tile.
///     let (x, y) = unsafe { (tile.read_part::<f32>(0, all.clone()), tile.write::<f32>(1, all)) };
///     y.iter_mut().zip(x).for_each(|(y, x)| *y = x + tile.param_f32(1));
/// }
///
/// /// Returns the needs of a launch of `shift`; a plan that binds less is refused.
/// fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
///     let bytes = launch.count(0) * size_of::<f32>();
///     (launch.grid == [1; 3]).then(|| Needs::new().read(bytes, 4).write(bytes, 4))
/// }
///
/// // SAFETY: `shift` touches `param(0)` elements of both bindings, as `needs` states, in one tile.
/// static PROGRAM: NativeKernel = unsafe {
///     NativeKernel::new("shift", needs, &[NativeVariant { isa: Isa::Portable, entry: shift }])
/// };
///
/// struct OnCpu;
/// impl Kernel for OnCpu {
///     type Op = Shift;
///     fn name(&self) -> &'static str {
///         "shift.cpu"
///     }
///     fn fits(&self, _: &Shift, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
///         let fits = io.input(0).dtype == DType::F32 && !on.is_gpu();
///         if fits { Ok(Cost::GOOD) } else { Err(Decline("f32 on the CPU only")) }
///     }
///     fn plan(&self, op: &Shift, io: &Io<'_>, _: &DeviceInfo) -> Plan {
///         let (words, args) = ([io.input(0).elements() as u32, op.0.to_bits()], [Arg::slot(0), Arg::slot(1)]);
///         Plan::launch(Program::Native(&PROGRAM), &args, &words, [1, 1, 1])
///     }
/// }
///
/// let device = Device::cpu()?;
/// let x = Buffer::from_slice(&device, [3], &[1.0f32, 2.0, 3.0])?;
/// let mut encoder = CommandEncoder::new(&device);
/// let y = encoder.run_one(Shift(0.5), &[&x])?;
/// encoder.submit()?.wait()?;
/// assert_eq!(y.to_vec::<f32>()?, [1.5, 2.5, 3.5]);
/// # Ok::<(), Error>(())
/// ```
pub trait Op: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Its name: the folder it lives in.
    fn name(&self) -> &'static str;
    /// Arguments and their access: inputs, then outputs.
    fn slots(&self) -> &'static [Slot];
    /// Checks the inputs and returns types and shapes of the outputs.
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs>;
    /// Checks outputs that exist already. By default they must have the types and shapes that `infer` returns.
    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        let slots = self.slots().iter().filter(|slot| slot.access.writes());
        for ((slot, inferred), given) in slots.zip(inferred).zip(given) {
            if inferred.dtype != given.dtype {
                let expected = inferred.dtype.to_string();
                return Err(Error::DTypeMismatch {
                    op: self.name(),
                    slot: slot.name,
                    expected,
                    got: given.dtype,
                });
            }
            if inferred.shape != given.shape {
                let expected = inferred.shape.to_string();
                return Err(Error::Shape { op: self.name(), slot: slot.name, expected, got: given.shape });
            }
        }
        Ok(())
    }
    /// The definition: fills `outputs` (whose values hold the old contents) from `inputs`, in f64.
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]);
    /// How far kernels may be from the reference for a given output.
    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        Tolerance::rounding(output.dtype)
    }
    /// The numbers that the bytes of output `i` stand for, if they are not elements of its type: quantized rows, for example.
    /// Conformance compares these.
    fn decode_output(&self, _io: &Io<'_>, _i: usize, _bytes: &[u8]) -> Option<Vec<f64>> {
        None
    }
    /// Whether the first rows of its outputs stay the same if rows of any contents are appended to its inputs. Only then may it
    /// compute more rows than are live.
    fn ignores_later_rows(&self) -> bool {
        true
    }
    /// The name that counters and times have for its kernel, if not the kernel's own.
    fn kernel_label(&self) -> Option<&'static str> {
        None
    }
    /// Bytes and operations of one call.
    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64)
    }
    /// Bytes and operations of one call some of whose inputs are known: `words` returns the 32-bit words of an input that the host has
    /// set. For ops whose work depends on values.
    fn work_of<'a>(&self, io: &Io<'_>, _words: &dyn Fn(usize) -> Option<&'a [u32]>) -> Work {
        self.work(io)
    }
    /// Ways to compute it.
    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>]
    where
        Self: Sized;
}

mod sealed {
    /// Only ops are erased.
    pub trait Sealed {}
    impl<O: super::Op> Sealed for O {}
}

/// An op without its type, for recorders, conformance and benches. Every [`Op`] implements it.
pub trait DynOp: sealed::Sealed + fmt::Debug + Send + Sync {
    /// The op itself, to downcast to its type.
    fn as_any(&self) -> &dyn Any;
    /// Whether the other op is of its type, with equal parameters: both compute the same.
    fn is_same(&self, other: &dyn DynOp) -> bool;
    /// See [`Op::name`].
    fn name(&self) -> &'static str;
    /// See [`Op::slots`].
    fn slots(&self) -> &'static [Slot];
    /// See [`Op::infer`].
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs>;
    /// See [`Op::check_outputs`].
    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()>;
    /// See [`Op::reference`].
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]);
    /// See [`Op::tolerance`].
    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance;
    /// See [`Op::decode_output`].
    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>>;
    /// See [`Op::ignores_later_rows`].
    fn ignores_later_rows(&self) -> bool;
    /// See [`Op::work`].
    fn work(&self, io: &Io<'_>) -> Work;
    /// See [`Op::work_of`].
    fn work_of<'a>(&self, io: &Io<'_>, words: &dyn Fn(usize) -> Option<&'a [u32]>) -> Work;
    /// The number of kernels.
    fn kernel_count(&self) -> usize;
    /// The name of kernel `i`.
    fn kernel_name(&self, i: usize) -> &'static str;
    /// Returns the cost of kernel `i`, or why it can't run this.
    fn kernel_fits(&self, i: usize, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline>;
    /// Returns the plan of kernel `i`.
    fn kernel_plan(&self, i: usize, io: &Io<'_>, on: &DeviceInfo) -> Plan;
    /// Returns the tolerance of kernel `i` where it is wider than the op's. See [`Kernel::tolerance`](super::Kernel::tolerance).
    fn kernel_tolerance(&self, i: usize) -> Option<Tolerance>;
}

impl<O: Op> DynOp for O {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn is_same(&self, other: &dyn DynOp) -> bool {
        other.as_any().downcast_ref::<O>().is_some_and(|other| self == other)
    }
    fn name(&self) -> &'static str {
        Op::name(self)
    }
    fn slots(&self) -> &'static [Slot] {
        Op::slots(self)
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        Op::infer(self, inputs)
    }
    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        Op::check_outputs(self, inferred, given)
    }
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        Op::reference(self, inputs, outputs);
    }
    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        Op::tolerance(self, io, output)
    }
    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        Op::decode_output(self, io, i, bytes)
    }
    fn ignores_later_rows(&self) -> bool {
        Op::ignores_later_rows(self)
    }
    fn work(&self, io: &Io<'_>) -> Work {
        Op::work(self, io)
    }
    fn work_of<'a>(&self, io: &Io<'_>, words: &dyn Fn(usize) -> Option<&'a [u32]>) -> Work {
        Op::work_of(self, io, words)
    }
    fn kernel_count(&self) -> usize {
        O::kernels().len()
    }
    fn kernel_name(&self, i: usize) -> &'static str {
        let own = || O::kernels().get(i).map_or("", |kernel| kernel.name());
        Op::kernel_label(self).unwrap_or_else(own)
    }
    fn kernel_fits(&self, i: usize, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        O::kernels().get(i).map_or(Err(Decline("no such kernel")), |kernel| kernel.fits(self, io, on))
    }
    fn kernel_tolerance(&self, i: usize) -> Option<Tolerance> {
        O::kernels().get(i).and_then(|kernel| kernel.tolerance())
    }
    fn kernel_plan(&self, i: usize, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        match O::kernels().get(i) {
            Some(kernel) => kernel.plan(self, io, on),
            None => Plan::default(),
        }
    }
}
