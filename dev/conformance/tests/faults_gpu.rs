//! Conformance can fail on Vulkan too: kernels that write too much, too little or the wrong thing are caught.

use conformance::{Effort, Problem, Report, open, run};
use silicide_core::DeviceInfo;
use silicide_core::kernel::{Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo};
use silicide_hal::{Part, Program, Snippet, WgslKernel};
use silicide_ops::{Case, Input};
use silicide_quant::DType;
use smallvec::smallvec;

/// `y = 2 x` by one invocation.
#[derive(Debug, PartialEq)]
struct Doubled;

impl Op for Doubled {
    fn name(&self) -> &'static str {
        "doubled"
    }
    fn slots(&self) -> &'static [Slot] {
        const SLOTS: [Slot; 2] = [Slot::input("x"), Slot::output("y")];
        &SLOTS
    }
    fn infer(&self, inputs: &[TensorInfo]) -> silicide_core::Result<Outputs> {
        Ok(smallvec![TensorInfo::new(inputs[0].dtype, inputs[0].shape)])
    }
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        for (y, x) in outputs[0].values.iter_mut().zip(&inputs[0].values) {
            *y = 2.0 * x;
        }
    }
    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[
            &Loop { name: "honest", first: 0, past: 0, factor: 2.0 },
            &Loop { name: "past the end", first: 0, past: 1, factor: 2.0 },
            &Loop { name: "unwritten", first: 1, past: 0, factor: 2.0 },
            &Loop { name: "inexact", first: 0, past: 0, factor: 2.001 },
        ]
    }
}

/// Writes elements `first..count + past`.
struct Loop {
    name: &'static str,
    first: u32,
    past: u32,
    factor: f32,
}

static BODY: Snippet = Snippet {
    name: "doubled",
    text: "
struct Params { x_offset: u32, y_offset: u32, first: u32, last: u32, factor: f32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
    for (var i = p.first; i < p.last; i += 1u) {
        y[p.y_offset + i] = p.factor * x[p.x_offset + i];
    }
}",
};

impl Kernel for Loop {
    type Op = Doubled;
    fn name(&self) -> &'static str {
        self.name
    }
    fn fits(&self, _: &Doubled, _: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        if on.is_gpu() { Ok(Cost::GOOD) } else { Err(Decline("runs on GPUs")) }
    }
    fn plan(&self, _: &Doubled, io: &Io<'_>, _: &DeviceInfo) -> Plan {
        let program = Program::Wgsl(WgslKernel::new(self.name, &[Part::plain(&BODY)], 2, 3));
        let last = io.output(0).elements() as u32 + self.past;
        let params = [self.first, last, self.factor.to_bits()];
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1)], &params, [1, 1, 1])
    }
}

/// The problems of a kernel.
fn problems<'a>(report: &'a Report, kernel: &str) -> Vec<&'a Problem> {
    let own = report.failures.iter().filter(|failure| failure.kernel == kernel);
    own.map(|failure| &failure.problem).collect()
}

#[test]
fn faulty_gpu_kernels_are_caught() {
    let cases = vec![Case::new("21", Doubled, vec![Input::gaussian(DType::F32, &[3, 7])])];
    let (targets, missing) = open(&["vulkan:0".to_owned()], None);
    assert!(missing.is_empty(), "{missing:?}");
    let report = run(&[("doubled", cases)], &targets, Effort::Full, &|_| ());
    assert_eq!(problems(&report, "honest"), Vec::<&Problem>::new());
    let caught = |kernel: &str, expected: fn(&Problem) -> bool| {
        let problems = problems(&report, kernel);
        assert!(problems.iter().any(|problem| expected(problem)), "{kernel}: {problems:?}");
    };
    caught("past the end", |problem| matches!(problem, Problem::Overwrote { .. }));
    caught("unwritten", |problem| matches!(problem, Problem::NotRepeatable(_)));
    caught("inexact", |problem| matches!(problem, Problem::Wrong { .. }));
}

#[test]
fn an_op_without_kernels_on_a_device_is_a_failure() {
    let cases = vec![Case::new("21", Doubled, vec![Input::gaussian(DType::F32, &[21])])];
    let (targets, _) = open(&["cpu".to_owned()], Some(silicide_core::Isa::Portable));
    let report = run(&[("doubled", cases)], &targets, Effort::Quick, &|_| ());
    assert_eq!(report.failures.len(), 1);
    assert_eq!(report.failures[0].problem, Problem::NothingRuns);
    assert!(!report.unsupported.is_empty() && report.tallies[0].declined > 0);
}
