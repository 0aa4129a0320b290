//! Small ops with a native and a WGSL kernel each, for tests of everything round them.

use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo,
};
use silicide_core::{DeviceInfo, Error, Isa, Result};
use silicide_hal::{
    LaunchShape, NativeFn, NativeKernel, NativeVariant, Needs, Part, Program, Snippet, Tile, WgslKernel,
};
use silicide_quant::{DType, Shape};
use std::marker::PhantomData;

/// Elements of a tile or a workgroup.
const TILE: usize = 256;

/// `y = a + b`, f32; may run over `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Add;

/// `y = factor * x`, f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale(pub(crate) f32);

/// `y += x`, f32: an output that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Accumulate;

/// `y = x + x + x`, f32, in two launches through scratch memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Triple;

/// `y = x`, f32, whose native kernel panics on the first tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Panics;

/// `y = x`, f32, of `[columns, rows]`: rows leave the first axis. It has no kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transpose;

/// The first two elements of `x`, f32; one element where `x` has this number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Odd(pub(crate) usize);

/// `y = 3 x`, f32, by one program for `at` elements and by another for any other number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Switching {
    pub(crate) at: usize,
}

/// Types of the inputs must be f32, and their shapes equal; the output is like them.
fn like_inputs(op: &'static str, slots: &[Slot], inputs: &[TensorInfo]) -> Result<Outputs> {
    let mut first: Option<TensorInfo> = None;
    for (input, slot) in inputs.iter().zip(slots) {
        if input.dtype != DType::F32 {
            let (expected, got) = ("f32".to_owned(), input.dtype);
            return Err(Error::DTypeMismatch { op, slot: slot.name, expected, got });
        }
        match first {
            Some(first) if first.shape != input.shape => {
                let (expected, got) = (first.shape.to_string(), input.shape);
                return Err(Error::Shape { op, slot: slot.name, expected, got });
            }
            _ => first = Some(*input),
        }
    }
    Ok(first.map(|info| TensorInfo::new(info.dtype, info.shape)).into_iter().collect())
}

macro_rules! op {
    ($op:ty, $name:literal, $slots:expr, $reference:expr, [$($kernel:expr),*]) => {
        impl Op for $op {
            fn name(&self) -> &'static str {
                $name
            }
            fn slots(&self) -> &'static [Slot] {
                const SLOTS: &[Slot] = &$slots;
                SLOTS
            }
            fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
                like_inputs($name, Op::slots(self), inputs)
            }
            fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
                let one: fn(&$op, &[f64], f64) -> f64 = $reference;
                for i in 0..outputs[0].values.len() {
                    let values: Vec<f64> = inputs.iter().map(|input| input.values[i]).collect();
                    outputs[0].values[i] = one(self, &values, outputs[0].values[i]);
                }
            }
            fn kernels() -> &'static [&'static dyn Kernel<Op = $op>] {
                const KERNELS: &[&dyn Kernel<Op = $op>] = &[$(&$kernel),*];
                KERNELS
            }
        }
    };
}

op!(
    Add,
    "add",
    [Slot::input("a"), Slot::input("b"), Slot::output_over("y", 1)],
    |_, x, _| x[0] + x[1],
    [native(&ADD), shader(&ADD_WGSL)]
);
op!(
    Scale,
    "scale",
    [Slot::input("x"), Slot::output("y")],
    |op, x, _| f64::from(op.0) * x[0],
    [native(&SCALE), shader(&SCALE_WGSL)]
);
op!(
    Accumulate,
    "accumulate",
    [Slot::input("x"), Slot::update("y")],
    |_, x, y| x[0] + y,
    [native(&ACCUMULATE), shader(&ACCUMULATE_WGSL)]
);
op!(
    Triple,
    "triple",
    [Slot::input("x"), Slot::output("y")],
    |_, x, _| 3.0 * x[0],
    [native(&ADD), shader(&ADD_WGSL)]
);
op!(Switching, "switching", [Slot::input("x"), Slot::output("y")], |_, x, _| 3.0 * x[0], [native(&SCALE)]);

/// The slots of an op with one input and one output.
const ONE_TO_ONE: &[Slot] = &[Slot::input("x"), Slot::output("y")];

impl Op for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }
    fn slots(&self) -> &'static [Slot] {
        ONE_TO_ONE
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let axes: Vec<usize> = inputs[0].shape.axes().iter().rev().copied().collect();
        Ok([TensorInfo::new(DType::F32, Shape::new(&axes).unwrap())].into_iter().collect())
    }
    fn reference(&self, _: &[Host], _: &mut [Host]) {}
    fn kernels() -> &'static [&'static dyn Kernel<Op = Transpose>] {
        &[]
    }
}

impl Op for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }
    fn slots(&self) -> &'static [Slot] {
        ONE_TO_ONE
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let elements = if inputs[0].shape.axes()[0] == self.0 { 1 } else { 2 };
        Ok([TensorInfo::new(DType::F32, Shape::new(&[elements]).unwrap())].into_iter().collect())
    }
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        outputs[0].values.iter_mut().zip(&inputs[0].values).for_each(|(y, x)| *y = *x);
    }
    fn kernels() -> &'static [&'static dyn Kernel<Op = Odd>] {
        &[&const { native(&SCALE) }]
    }
}

op!(Panics, "panics", [Slot::input("x"), Slot::output("y")], |_, x, _| x[0], [native(&PANICS)]);

/// How the same launches serve several ops: what a kernel of this file needs to know of its op.
pub(crate) trait Launches: Op {
    /// The launches with a program, for `elements` elements in `grid` tiles.
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan;
}

impl Launches for Add {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1), Arg::slot(2)], &[elements], grid)
    }
}
impl Launches for Scale {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements, self.0.to_bits()], grid)
    }
}
impl Launches for Accumulate {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements], grid)
    }
}
impl Launches for Triple {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        let mut plan = Plan::default();
        let twice = plan.scratch(elements as usize * 4);
        let sums = [Arg::slot(0), Arg::slot(0), Arg::scratch(twice, Access::Write)];
        plan.push(program.clone(), &sums, &[elements], grid);
        let sums = [Arg::scratch(twice, Access::Read), Arg::slot(0), Arg::slot(1)];
        plan.push(program, &sums, &[elements], grid);
        plan
    }
}
impl Launches for Odd {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements, 1f32.to_bits()], grid)
    }
}
impl Launches for Switching {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        let (program, factor) = match elements as usize == self.at {
            true => (program, 3f32),
            false => (Program::Native(&SCALE_BY_HALF), 6f32),
        };
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements, factor.to_bits()], grid)
    }
}
impl Launches for Panics {
    fn launches(&self, program: Program, elements: u32, grid: [u32; 3]) -> Plan {
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &[elements], grid)
    }
}

/// A native kernel; the null device, which runs nothing, takes it too.
pub(crate) struct Native<O>(&'static NativeKernel, PhantomData<fn() -> O>);
/// A WGSL kernel.
pub(crate) struct Shader<O>(&'static ShaderText, PhantomData<fn() -> O>);

/// The parts of a WGSL kernel.
pub(crate) struct ShaderText {
    name: &'static str,
    bindings: u32,
    params: u32,
    text: Snippet,
}

pub(crate) const fn native<O>(kernel: &'static NativeKernel) -> Native<O> {
    Native(kernel, PhantomData)
}
const fn shader<O>(text: &'static ShaderText) -> Shader<O> {
    Shader(text, PhantomData)
}

impl<O: Launches> Kernel for Native<O> {
    type Op = O;
    fn name(&self) -> &'static str {
        self.0.name
    }
    fn fits(&self, _: &O, _: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if on.is_gpu() { Err(Decline("it is native code")) } else { Ok(Cost::GOOD) }
    }
    fn plan(&self, op: &O, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let elements = io.output(0).elements();
        let grid = [elements.div_ceil(TILE) as u32, 1, 1];
        op.launches(Program::Native(self.0), elements as u32, grid)
    }
}

impl<O: Launches> Kernel for Shader<O> {
    type Op = O;
    fn name(&self) -> &'static str {
        self.0.name
    }
    fn fits(&self, _: &O, _: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if on.is_gpu() { Ok(Cost::GOOD) } else { Err(Decline("it needs a GPU")) }
    }
    fn plan(&self, op: &O, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let elements = io.output(0).elements();
        let grid = [elements.div_ceil(TILE) as u32, 1, 1];
        op.launches(Program::Wgsl(self.0.program()), elements as u32, grid)
    }
}

impl ShaderText {
    fn program(&'static self) -> WgslKernel {
        WgslKernel::new(self.name, &[Part::plain(&self.text)], self.bindings, self.params)
            .constant("WG", TILE as u32)
    }
}

/// A program of the shader of [`Scale`] with a constant of its own: as many different ones as numbers.
pub(crate) fn variant(number: u32) -> Program {
    Program::Wgsl(SCALE_WGSL.program().constant("VARIANT", number))
}

/// WGSL that does not compile.
pub(crate) fn broken() -> Program {
    static BROKEN: Snippet = Snippet { name: "BROKEN", text: "fn main( {" };
    Program::Wgsl(WgslKernel::new("broken.wgsl", &[Part::plain(&BROKEN)], 1, 0))
}

/// The native program of [`Add`].
pub(crate) fn native_add() -> Program {
    Program::Native(&ADD)
}

/// The WGSL program of [`Add`].
pub(crate) fn shader_add() -> Program {
    // SAFETY: invocation `i` touches element `i` of each binding, below `param(0)`, as the needs state.
    Program::Wgsl(unsafe { ADD_WGSL.program().unchecked(two_to_one, &[]) })
}

/// The needs of a program over f32 elements, `param(0)` of each binding, in tiles of their own.
fn elements(launch: &LaunchShape<'_>, read: usize, written: usize) -> Option<Needs> {
    let bytes = launch.count(0) * size_of::<f32>();
    launch.line()?;
    let needs = (0..read).fold(Needs::new(), |needs, _| needs.read(bytes, 4));
    Some((0..written).fold(needs, |needs, _| needs.write(bytes, 4)))
}

/// The needs of `add`, which may run over its first input.
pub(crate) fn two_to_one(launch: &LaunchShape<'_>) -> Option<Needs> {
    elements(launch, 2, 1).map(|needs| needs.over(1))
}
/// The needs of `scale` and `bits`.
pub(crate) fn one_to_one(launch: &LaunchShape<'_>) -> Option<Needs> {
    elements(launch, 1, 1)
}
/// The needs of `split`.
pub(crate) fn one_to_two(launch: &LaunchShape<'_>) -> Option<Needs> {
    elements(launch, 1, 2)
}
/// The needs of `accumulate`.
fn one_into_one(launch: &LaunchShape<'_>) -> Option<Needs> {
    let bytes = launch.count(0) * size_of::<f32>();
    launch.line()?;
    Some(Needs::new().read(bytes, 4).update(bytes, 4))
}

macro_rules! native_kernels {
    ($($name:ident = $label:literal, $entry:expr, $needs:expr;)*) => {$(
        // SAFETY: tile `i` touches elements `i * TILE..` of each binding, up to `param(0)`, as `needs` states; the grid has
        // one axis, so no two tiles have the same elements.
        static $name: NativeKernel = unsafe {
            NativeKernel::new($label, $needs, &[NativeVariant { isa: Isa::Portable, entry: $entry as NativeFn }])
        };
    )*};
}

native_kernels! {
    ADD = "add.cpu", add, two_to_one;
    SCALE = "scale.cpu", scale, one_to_one;
    SCALE_BY_HALF = "scale_by_half.cpu", scale_by_half, one_to_one;
    ACCUMULATE = "accumulate.cpu", accumulate, one_into_one;
    PANICS = "panics.cpu", panics, one_to_one;
}

pub(crate) fn part(tile: &Tile<'_>) -> std::ops::Range<usize> {
    let start = tile.index[0] as usize * TILE;
    let end = tile.param(0) as usize;
    start.min(end)..(start + TILE).min(end)
}

/// # Safety
/// The plans of this file: bindings hold `param(0)` elements.
unsafe fn add(tile: &Tile<'_>) {
    let (part, y) = (part(tile), tile.start(2).cast::<f32>());
    let (a, b) = (tile.start(0).cast::<f32>(), tile.start(1).cast::<f32>());
    for i in part {
        // SAFETY: the tile's own elements; `y` may be `a`, so no slices.
        unsafe { y.add(i).write(a.add(i).read() + b.add(i).read()) };
    }
}

/// # Safety
/// As for `add`.
unsafe fn scale(tile: &Tile<'_>) {
    let part = part(tile);
    // SAFETY: the tile's own elements.
    let (x, y) = unsafe { (tile.read_part::<f32>(0, part.clone()), tile.write::<f32>(1, part)) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = tile.param_f32(1) * x;
    }
}

/// # Safety
/// As for `add`.
unsafe fn scale_by_half(tile: &Tile<'_>) {
    let part = part(tile);
    // SAFETY: the tile's own elements.
    let (x, y) = unsafe { (tile.read_part::<f32>(0, part.clone()), tile.write::<f32>(1, part)) };
    for (y, x) in y.iter_mut().zip(x) {
        *y = tile.param_f32(1) / 2.0 * x;
    }
}

/// # Safety
/// As for `add`.
unsafe fn accumulate(tile: &Tile<'_>) {
    let part = part(tile);
    // SAFETY: the tile's own elements.
    let (x, y) = unsafe { (tile.read_part::<f32>(0, part.clone()), tile.write::<f32>(1, part)) };
    for (y, x) in y.iter_mut().zip(x) {
        *y += x;
    }
}

/// # Safety
/// None needed.
unsafe fn panics(tile: &Tile<'_>) {
    assert!(tile.index[0] != 0, "a kernel that panics on purpose");
}

static ADD_WGSL: ShaderText = ShaderText {
    name: "add.wgsl",
    bindings: 3,
    params: 1,
    text: Snippet {
        name: "ADD",
        text: "
struct Params { a: u32, b: u32, y: u32, count: u32 }
var<immediate> p: Params;
override WG: u32 = 256;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i < p.count { y[p.y + i] = a[p.a + i] + b[p.b + i]; }
}
",
    },
};

static SCALE_WGSL: ShaderText = ShaderText {
    name: "scale.wgsl",
    bindings: 2,
    params: 2,
    text: Snippet {
        name: "SCALE",
        text: "
struct Params { x: u32, y: u32, count: u32, factor: f32 }
var<immediate> p: Params;
override WG: u32 = 256;
override VARIANT: u32 = 0;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i < p.count { y[p.y + i] = p.factor * x[p.x + i] + f32(VARIANT); }
}
",
    },
};

static ACCUMULATE_WGSL: ShaderText = ShaderText {
    name: "accumulate.wgsl",
    bindings: 2,
    params: 1,
    text: Snippet {
        name: "ACCUMULATE",
        text: "
struct Params { x: u32, y: u32, count: u32 }
var<immediate> p: Params;
override WG: u32 = 256;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(WG)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if i < p.count { y[p.y + i] += x[p.x + i]; }
}
",
    },
};
