//! Small native ops whose arguments make the rules of a call interesting: two outputs, outputs of another type, outputs
//! of any size, and plans with bindings that overlap.

use super::ops::{Launches, Native, native, native_add, one_to_one, one_to_two};
use silicide_core::Isa;
use silicide_core::Result;
use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo,
};
use silicide_core::{DeviceInfo, Error};
use silicide_hal::{NativeFn, NativeKernel, NativeVariant, Program, Tile};
use silicide_quant::{DType, Shape};

/// `y = 2 x`, `z = 3 x`, f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Split;

/// `y = bits of x`, from f32 to u32. The slot allows `y` to be `x`, which the types forbid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bits;

/// `y` is this many words, each 7; `x` is only there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sized(pub(crate) usize);

/// `y = 2 x`, planned with a read binding of `y` that overlaps the written one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sliding;

/// `y = 4 x` in two launches, of which only the first reads `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quadruple;

/// The shape of one f32 input.
fn one_input(op: &'static str, inputs: &[TensorInfo]) -> Result<Shape> {
    let got = inputs.first().map_or(DType::U8, |info| info.dtype);
    if got != DType::F32 {
        return Err(Error::DTypeMismatch { op, slot: "x", expected: "f32".to_owned(), got });
    }
    Ok(inputs[0].shape)
}

macro_rules! op {
    ($op:ty, $name:literal, $slots:expr, $outputs:expr, $kernel:expr) => {
        impl Op for $op {
            fn name(&self) -> &'static str {
                $name
            }
            fn slots(&self) -> &'static [Slot] {
                const SLOTS: &[Slot] = &$slots;
                SLOTS
            }
            fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
                let outputs: fn(&$op, Shape) -> Vec<(DType, Shape)> = $outputs;
                let outputs = outputs(self, one_input($name, inputs)?);
                Ok(outputs.into_iter().map(|(dtype, shape)| TensorInfo::new(dtype, shape)).collect())
            }
            fn reference(&self, _: &[Host], _: &mut [Host]) {}
            fn kernels() -> &'static [&'static dyn Kernel<Op = $op>] {
                const KERNELS: &[&dyn Kernel<Op = $op>] = &[&$kernel];
                KERNELS
            }
        }
    };
}

const X: Slot = Slot::input("x");
const Y: Slot = Slot::output("y");

op!(Split, "split", [X, Y, Slot::output("z")], |_, x| vec![(DType::F32, x); 2], SPLIT);
op!(Bits, "bits", [X, Slot::output_over("y", 1)], |_, x| vec![(DType::U32, x)], BITS);
op!(Sized, "sized", [X, Y], |op, _| vec![(DType::F32, Shape::new(&[op.0]).unwrap())], Words);
op!(Sliding, "sliding", [X, Y], |_, x| vec![(DType::F32, x)], SLIDING);
op!(Quadruple, "quadruple", [X, Y], |_, x| vec![(DType::F32, x)], QUADRUPLE);

const SPLIT: Native<Split> = native(&SPLIT_CPU);
const BITS: Native<Bits> = native(&BITS_CPU);
const SLIDING: Native<Sliding> = native(&SPLIT_CPU);
const QUADRUPLE: Native<Quadruple> = native(&SPLIT_CPU);

impl Launches for Split {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1), Arg::slot(2)], &[elements], grid)
    }
}
impl Launches for Bits {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements], grid)
    }
}
impl Launches for Sliding {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        let bytes = elements as usize * 4;
        let slid = Arg::slot(1).window(4, bytes - 4);
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1), slid], &[elements - 1], grid)
    }
}
impl Launches for Quadruple {
    fn launches(&self, _: Program, elements: u32, grid: [u32; 3]) -> Plan {
        let mut plan = Plan::default();
        let twice = plan.scratch(elements as usize * 4);
        let sums = [Arg::slot(0), Arg::slot(0), Arg::scratch(twice, Access::Write)];
        plan.push(native_add(), &sums, &[elements], grid);
        let sums = [Arg::scratch(twice, Access::Read), Arg::scratch(twice, Access::Read), Arg::slot(1)];
        plan.push(native_add(), &sums, &[elements], grid);
        plan
    }
}

struct Words;

impl Kernel for Words {
    type Op = Sized;
    fn name(&self) -> &'static str {
        "sized.fill"
    }
    fn fits(&self, _: &Sized, _: &Io<'_>, _: &DeviceInfo) -> Result<Cost, Decline> {
        Ok(Cost::GOOD)
    }
    fn plan(&self, _: &Sized, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        let fill = Step::Fill { to: Arg::slot(1), value: 7 };
        Plan { steps: [fill].into_iter().collect(), ..Plan::default() }
    }
}

const SPLIT_VARIANTS: &[NativeVariant] = &[NativeVariant { isa: Isa::Portable, entry: split as NativeFn }];
const BITS_VARIANTS: &[NativeVariant] = &[NativeVariant { isa: Isa::Portable, entry: bits as NativeFn }];
// SAFETY: a tile touches the elements of `part` of each binding, at most `param(0)`, as the needs state.
static SPLIT_CPU: NativeKernel = unsafe { NativeKernel::new("split.cpu", one_to_two, SPLIT_VARIANTS) };
// SAFETY: a tile touches the elements of `part` of both bindings, at most `param(0)`, as the needs state.
static BITS_CPU: NativeKernel = unsafe { NativeKernel::new("bits.cpu", one_to_one, BITS_VARIANTS) };

/// # Safety
/// The plans of this file: bindings hold `param(0)` elements.
unsafe fn split(tile: &Tile<'_>) {
    let x = tile.start(0).cast::<f32>();
    let (y, z) = (tile.start(1).cast::<f32>(), tile.start(2).cast::<f32>());
    for i in super::ops::part(tile) {
        // SAFETY: the tile's own elements.
        unsafe {
            y.add(i).write(2.0 * x.add(i).read());
            z.add(i).write(3.0 * x.add(i).read());
        }
    }
}

/// # Safety
/// As for `split`.
unsafe fn bits(tile: &Tile<'_>) {
    let (x, y) = (tile.start(0).cast::<f32>(), tile.start(1).cast::<u32>());
    for i in super::ops::part(tile) {
        // SAFETY: the tile's own elements.
        unsafe { y.add(i).write(x.add(i).read().to_bits()) };
    }
}
