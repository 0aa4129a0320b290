//! The rules of a launch: a plan is made by safe code, so one that binds less than a program needs is an error, for
//! encoder and graph alike, and nothing is touched.

use crate::common::ops::{native_add, shader_add};
use crate::common::{count, devices, null_device, vector};
use silicide_core::hal::null::NullOptions;
use silicide_core::hal::{Part, Program, Snippet, WgslKernel};
use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo,
};
use silicide_core::{
    Buffer, CommandEncoder, Device, DeviceInfo, Error, GraphBuilder, GraphExecutor, GraphOptions, Recorder,
    Result,
};
use silicide_quant::DType;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const LEN: usize = 64;
const BYTES: usize = LEN * 4;
const A: Arg = Arg::slot(0);
const B: Arg = Arg::slot(1);
const Y: Arg = Arg::slot(2);

/// An op of two inputs and an output, whose only kernel plans whatever it is told to.
#[derive(Clone, Copy, Debug)]
struct Careless(fn() -> Plan);

impl PartialEq for Careless {
    fn eq(&self, other: &Careless) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

struct Told;

impl Op for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }
    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("a"), Slot::input("b"), Slot::output("y")] }
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        Ok(inputs.iter().take(1).map(|info| TensorInfo::new(info.dtype, info.shape)).collect())
    }
    fn reference(&self, _: &[Host], _: &mut [Host]) {}
    fn kernels() -> &'static [&'static dyn Kernel<Op = Careless>] {
        &[&Told]
    }
}

impl Kernel for Told {
    type Op = Careless;
    fn name(&self) -> &'static str {
        "careless.told"
    }
    fn fits(&self, _: &Careless, _: &Io<'_>, _: &DeviceInfo) -> std::result::Result<Cost, Decline> {
        Ok(Cost::GOOD)
    }
    fn plan(&self, op: &Careless, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        op.0()
    }
}

/// `y = a + b` by the native program, over these bindings.
fn add(args: &[Arg]) -> Plan {
    Plan::launch(native_add(), args, &[LEN as u32], [1, 1, 1])
}

/// The same with scratch memory 0, of as many bytes.
fn add_with_scratch(args: &[Arg]) -> Plan {
    Plan { scratch: [BYTES].into_iter().collect(), ..add(args) }
}

/// What both recorders say of a plan, over two inputs and an output; nothing is run.
fn refused(device: &Device, dtype: DType, plan: fn() -> Plan) -> String {
    let elements = BYTES / dtype.size();
    let [a, b, y] = [0, 1, 2].map(|_| Buffer::new(device, dtype, [elements]).unwrap());
    let said = CommandEncoder::new(device).run_into(Careless(plan), &[&a, &b], &[&y]);
    let said = assert_error!(said, Error::BadPlan { kernel: "careless.told", .. });
    let mut builder = GraphBuilder::new(device);
    let [a, b, y] = [&a, &b, &y].map(|buffer| builder.constant(buffer));
    builder.run_into(Careless(plan), &[&a, &b], &[&y]).unwrap();
    let graph = builder.finish(&[&y]).unwrap();
    let session =
        GraphExecutor::new(graph, &GraphOptions::default()).and_then(|executor| executor.session(&[]));
    assert_error!(session, Error::BadPlan { .. });
    said
}

fn refused_on_cpu(plan: fn() -> Plan) -> String {
    refused(&Device::cpu().unwrap(), DType::F32, plan)
}

#[test]
fn a_plan_that_gives_a_program_what_it_needs_runs() {
    let device = Device::cpu().unwrap();
    let [a, b] = [0, 1].map(|_| vector(&device, &count(LEN)));
    let y = Buffer::new(&device, DType::F32, [LEN]).unwrap();
    let mut encoder = CommandEncoder::new(&device);
    encoder.run_into(Careless(|| add(&[A, B, Y])), &[&a, &b], &[&y]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap()[9], 18.0);
}

#[test]
fn bindings_that_are_too_short_are_refused_with_both_lengths() {
    for plan in [
        || add(&[A.window(0, BYTES - 4), B, Y]),
        || add(&[A, B.window(4, BYTES - 4), Y]),
        || add(&[A, B, Y.window(0, 4)]),
    ] as [fn() -> Plan; 3]
    {
        let said = refused_on_cpu(plan);
        assert!(said.contains("add.cpu") && said.contains("256 are needed"), "{said}");
    }
    let said = refused_on_cpu(|| add(&[A, B, Y.window(0, 4)]));
    assert!(said.contains("binding 2") && said.contains("with 4 bytes"), "{said}");
    // A parameter that asks for more than there is.
    refused_on_cpu(|| Plan::launch(native_add(), &[A, B, Y], &[LEN as u32 + 1], [1, 1, 1]));
    refused_on_cpu(|| Plan::launch(native_add(), &[A, B, Y], &[u32::MAX], [1, 1, 1]));
}

#[test]
fn too_few_and_too_many_bindings_are_refused() {
    let said = refused_on_cpu(|| add(&[A, B]));
    assert!(said.contains("2 bindings of add.cpu, which has 3"), "{said}");
    refused_on_cpu(|| add(&[A, B, Y, A]));
}

#[test]
fn grids_and_parameters_that_a_program_does_not_take_are_refused() {
    // Tiles of both rows of the grid would write the same elements at once.
    let said = refused_on_cpu(|| Plan::launch(native_add(), &[A, B, Y], &[LEN as u32], [1, 2, 1]));
    assert!(said.contains("does not take") && said.contains("[1, 2, 1]"), "{said}");
}

#[test]
fn an_input_is_never_written() {
    let said = refused_on_cpu(|| add(&[A, A, B]));
    assert!(said.contains("binding 2") && said.contains("Write"), "{said}");
}

#[test]
fn an_output_that_is_only_written_is_never_read() {
    let said = refused_on_cpu(|| add_with_scratch(&[Y, B, Arg::scratch(0, Access::Write)]));
    assert!(said.contains("binding 0") && said.contains("Read"), "{said}");
}

#[test]
fn bindings_share_bytes_only_where_the_program_permits_it() {
    const SCRATCH: Arg = Arg::scratch(0, Access::ReadWrite);
    let said = refused_on_cpu(|| add_with_scratch(&[A, SCRATCH, SCRATCH]));
    assert!(said.contains("1 and 2 over the same bytes"), "{said}");
    // The program may run over its first binding.
    let device = Device::cpu().unwrap();
    let [a, b, y] = [0, 1, 2].map(|_| vector(&device, &count(LEN)));
    let mut encoder = CommandEncoder::new(&device);
    let in_place = Careless(|| add_with_scratch(&[SCRATCH, B, SCRATCH]));
    encoder.run_into(in_place, &[&a, &b], &[&y]).unwrap();
    encoder.submit().unwrap().wait().unwrap();
}

#[test]
fn bindings_that_share_only_some_bytes_are_refused() {
    let said = refused_on_cpu(|| {
        let scratch = Arg::scratch(0, Access::ReadWrite);
        let plan = add(&[scratch.window(0, BYTES), B, scratch.window(4, BYTES)]);
        Plan { scratch: [BYTES + 4].into_iter().collect(), ..plan }
    });
    assert!(said.contains("one of them written"), "{said}");
}

#[test]
fn bindings_that_are_not_aligned_to_elements_are_refused() {
    let device = Device::cpu().unwrap();
    let said = refused(&device, DType::U8, || {
        let args = [A.window(1, BYTES - 4), B.window(0, BYTES - 4), Y.window(0, BYTES - 4)];
        Plan::launch(native_add(), &args, &[LEN as u32 - 1], [1, 1, 1])
    });
    assert!(said.contains("aligned to 1 bytes instead of 4"), "{said}");
}

/// A shader finds its first element by a word that counts elements of its own type.
#[test]
fn offsets_in_other_units_than_the_shader_counts_in_are_refused() {
    let (device, _raw) = null_device(&NullOptions::default());
    let plan = || Plan::launch(shader_add(), &[A, B, Y], &[LEN as u32], [1, 1, 1]);
    let said = refused(&device, DType::U8, plan);
    assert!(said.contains("units of 1 bytes instead of 4"), "{said}");
    let [a, b, y] = [0, 1, 2].map(|_| Buffer::new(&device, DType::F32, [LEN]).unwrap());
    CommandEncoder::new(&device).run_into(Careless(plan), &[&a, &b], &[&y]).unwrap();
}

/// A table has no offset word: bound where a shader has none, it would shift the words that the shader reads.
#[test]
fn tables_are_bound_only_where_the_shader_has_them() {
    static WORDS: [u32; LEN] = [0; LEN];
    let (device, _raw) = null_device(&NullOptions::default());
    let said = refused(&device, DType::F32, || {
        Plan::launch(shader_add(), &[Arg::table(&WORDS), B, Y], &[1, LEN as u32], [1, 1, 1])
    });
    assert!(said.contains("a table at binding 0"), "{said}");
}

/// An op whose slots change once it was planned: what was an input is then to be written.
#[derive(Debug, PartialEq)]
struct Fickle;

struct FillsInput;

static PLANNED: AtomicBool = AtomicBool::new(false);

impl Op for Fickle {
    fn name(&self) -> &'static str {
        "fickle"
    }
    fn slots(&self) -> &'static [Slot] {
        match PLANNED.load(SeqCst) {
            false => const { &[Slot::input("x"), Slot::output("y")] },
            true => const { &[Slot::update("x"), Slot::output("y")] },
        }
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        Ok(inputs.iter().copied().collect())
    }
    fn reference(&self, _: &[Host], _: &mut [Host]) {}
    fn kernels() -> &'static [&'static dyn Kernel<Op = Fickle>] {
        &[&FillsInput]
    }
}

impl Kernel for FillsInput {
    type Op = Fickle;
    fn name(&self) -> &'static str {
        "fickle.fills_input"
    }
    fn fits(&self, _: &Fickle, _: &Io<'_>, _: &DeviceInfo) -> std::result::Result<Cost, Decline> {
        Ok(Cost::GOOD)
    }
    fn plan(&self, _: &Fickle, _: &Io<'_>, _: &DeviceInfo) -> Plan {
        PLANNED.store(true, SeqCst);
        Plan { steps: [Step::Fill { to: A, value: 7 }].into_iter().collect(), ..Plan::default() }
    }
}

#[test]
fn an_input_is_never_written_though_the_slots_of_the_op_change() {
    let device = Device::cpu().unwrap();
    let x = vector(&device, &count(LEN));
    let mut encoder = CommandEncoder::new(&device);
    let said = assert_error!(encoder.run_one(Fickle, &[&x]), Error::BadPlan { .. });
    assert!(said.contains("which is an input"), "{said}");
    assert_eq!(x.to_vec::<f32>().unwrap(), count(LEN));
}

#[test]
fn rules_checked_wgsl_refuses_bindings_shorter_than_their_type() {
    static TEXT: Snippet = Snippet {
        name: "sized",
        text: "struct SizedParams { a: u32, b: u32, y: u32 }
var<immediate> p: SizedParams;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(0) var<storage, read> not_used: array<f32, 1024>;
@group(0) @binding(1) var<storage, read> b: array<f32, 128>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[p.y + id.x] = a[p.a + id.x] + b[p.b + id.x]; }",
    };
    let Some(device) = devices().into_iter().find(|device| device.info().is_gpu()) else { return };
    let plan = || {
        let kernel = WgslKernel::new("sized", &[Part::plain(&TEXT)], 3, 0);
        Plan::launch(Program::Wgsl(kernel), &[A, B, Y], &[], [1, 1, 1])
    };
    let run = |elements: usize| {
        let of = || vector(&device, &count(elements));
        let (a, b, y) = (of(), of(), of());
        let mut encoder = CommandEncoder::new(&device);
        encoder.run_into(Careless(plan), &[&a, &b], &[&y])?;
        encoder.submit()?.wait()
    };
    run(128).unwrap();
    let error = assert_error!(run(64), Error::BadPlan { .. });
    assert!(error.contains("binding 1 of sized with 256 bytes, expected at least the 512"), "{error}");
}
