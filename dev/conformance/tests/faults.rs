//! Conformance can fail: each kernel below breaks one rule, and must be caught breaking it.
// One of them panics.
#![allow(clippy::panic)]

use conformance::{Effort, Failure, Problem, Report, open, run};
use silicide_core::DeviceInfo;
use silicide_core::Isa;
use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo,
};
use silicide_hal::{LaunchShape, NativeFn, NativeKernel, NativeVariant, Needs, Program, Tile};
use silicide_ops::{Case, Data, Input};
use silicide_quant::DType;
use smallvec::smallvec;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// `y = 2 x`, with one honest kernel and many that are not.
#[derive(Debug, PartialEq)]
struct Doubled;

impl Op for Doubled {
    fn name(&self) -> &'static str {
        "doubled"
    }
    fn slots(&self) -> &'static [Slot] {
        const SLOTS: [Slot; 2] = [Slot::input("x"), Slot::output_over("y", 1)];
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
        static KERNELS: OnceLock<Vec<&'static dyn Kernel<Op = Doubled>>> = OnceLock::new();
        KERNELS.get_or_init(|| ALL.iter().map(|kernel| kernel as &dyn Kernel<Op = Doubled>).collect())
    }
}

/// A kernel of one tile for everything.
struct Candidate {
    native: &'static NativeKernel,
    cost: Cost,
    declines: Option<&'static str>,
}

const fn variants(entry: NativeFn) -> NativeVariant {
    NativeVariant { isa: Isa::Portable, entry }
}

/// One tile over `param(0)` elements of x and y, and four words of scratch memory.
fn needs(launch: &LaunchShape<'_>) -> Option<Needs> {
    let bytes = launch.count(0) * 4u32;
    let needs = Needs::new().read(bytes, 4).write(bytes, 4).over(0b1).update(16u32, 4);
    (launch.grid == [1; 3]).then_some(needs)
}

macro_rules! candidates {
    ($($name:literal: $entry:expr;)*) => {
        static ALL: &[Candidate] = &[$(Candidate {
            // SAFETY: faults reach one element past what `needs` states. Only conformance runs them, on arguments with
            // guards round them, one tile at a time.
            native: &unsafe { NativeKernel::new($name, needs, &[variants($entry)]) },
            cost: Cost::FALLBACK,
            declines: None,
        }),*, Candidate {
            // SAFETY: it reads and writes `param(0)` elements in one tile.
            native: &unsafe { NativeKernel::new("declines", needs, &[variants(honest)]) },
            cost: Cost::BEST,
            declines: Some("never fits"),
        }];
    };
}

candidates! {
    "honest": honest;
    "inexact": |tile| apply(tile, |_, x| x * 2.001);
    "not a number": |tile| apply(tile, |i, x| if i == 0 { f32::NAN } else { x * 2.0 });
    "unwritten": |tile| (1..count(tile)).for_each(|i| put(tile, 1, i, 2.0 * get(tile, 0, i)));
    "past the end": |tile| { honest(tile); put(tile, 1, count(tile), 7.0) };
    "before the start": |tile| { honest(tile); put(tile, 1, -1, 7.0) };
    "reads past the end": |tile| {
        let past = get(tile, 0, count(tile));
        apply(tile, |i, x| if i == 0 && past > 0.0 { x * 2.000_001 } else { x * 2.0 })
    };
    "writes its input": |tile| {
        honest(tile);
        if tile.start(0) != tile.start(1) { put(tile, 0, 0, 0.0) }
    };
    "remembers": |tile| {
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let odd = CALLS.fetch_add(1, Relaxed) % 2 == 1;
        apply(tile, |_, x| if odd { x * 2.000_000_5 } else { x * 2.0 })
    };
    "depends on threads": |tile| {
        let threads = tile.param(1);
        apply(tile, |_, x| if threads == 3 { x * 2.000_000_5 } else { x * 2.0 })
    };
    "reads scratch": |tile| {
        let scratch = get(tile, 2, 0);
        apply(tile, |_, x| x * 2.0 + scratch * 0.0)
    };
    "not in place": |tile| {
        // The first output serves as scratch while its input is still needed.
        put(tile, 1, 0, 0.0);
        apply(tile, |_, x| x * 2.0)
    };
    "panics": |_| panic!("as it must");
}

fn get(tile: &Tile<'_>, binding: usize, i: isize) -> f32 {
    // SAFETY: plans here have one tile; the element is inside the binding or the guards that layouts put round it.
    unsafe { *tile.start(binding).cast::<f32>().offset(i) }
}

fn put(tile: &Tile<'_>, binding: usize, i: isize, value: f32) {
    // SAFETY: as in `get`: one tile, and the element is inside the binding or its guards.
    unsafe { *tile.start(binding).cast::<f32>().offset(i) = value }
}

fn count(tile: &Tile<'_>) -> isize {
    tile.param(0) as isize
}

fn apply(tile: &Tile<'_>, f: impl Fn(isize, f32) -> f32) {
    for i in 0..count(tile) {
        put(tile, 1, i, f(i, get(tile, 0, i)));
    }
}

fn honest(tile: &Tile<'_>) {
    apply(tile, |_, x| x * 2.0);
}

impl Kernel for Candidate {
    type Op = Doubled;
    fn name(&self) -> &'static str {
        self.native.name
    }
    fn fits(&self, _: &Doubled, _: &Io<'_>, _: &DeviceInfo) -> Result<Cost, Decline> {
        self.declines.map_or(Ok(self.cost), |reason| Err(Decline(reason)))
    }
    fn plan(&self, _: &Doubled, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        let scratch = plan.scratch(16);
        let args = [Arg::slot(0), Arg::slot(1), Arg::scratch(scratch, Access::ReadWrite)];
        let params = [io.output(0).elements() as u32, on.threads as u32];
        plan.push(Program::Native(self.native), &args, &params, [1, 1, 1]);
        plan
    }
}

fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        let (targets, missing) = open(&["cpu".to_owned()], Some(Isa::Portable));
        assert!(missing.is_empty());
        let cases = vec![
            Case::new("some", Doubled, vec![Input::gaussian(DType::F32, &[3, 7])]),
            Case::new("some", Doubled, vec![Input::of(DType::F32, &[2], Data::Values(vec![1.0]))]),
        ];
        run(&[("doubled", cases)], &targets, Effort::Full, &|_| ())
    })
}

fn of(kernel: &str) -> Vec<&'static Failure> {
    report().failures.iter().filter(|failure| failure.kernel == kernel).collect()
}

/// The problems of a kernel, each of which must be of the expected kind.
#[track_caller]
fn caught(kernel: &str, expected: impl Fn(&Problem) -> bool) {
    let failures = of(kernel);
    assert!(failures.iter().any(|failure| expected(&failure.problem)), "{kernel}: {failures:?}");
}

#[test]
fn an_honest_kernel_passes() {
    assert!(of("honest").is_empty(), "{:?}", of("honest"));
    assert!(report().tallies[0].runs > 100);
}

#[test]
fn wrong_numbers_are_caught() {
    caught(
        "inexact",
        |problem| matches!(problem, Problem::Wrong { output: "y", mismatch, .. } if mismatch.wrong > 0),
    );
    caught(
        "not a number",
        |problem| matches!(problem, Problem::Wrong { mismatch, .. } if mismatch.index == 0),
    );
}

#[test]
fn unwritten_outputs_are_caught() {
    caught("unwritten", |problem| matches!(problem, Problem::NotRepeatable(_)));
}

#[test]
fn writes_beside_outputs_are_caught() {
    let overwrote = |text: &'static str| move |problem: &Problem| matches!(problem, Problem::Overwrote { what, .. } if what.contains(text));
    caught("past the end", overwrote("past the end of y"));
    caught("before the start", overwrote("before y"));
    caught("writes its input", overwrote("byte 0 of input x"));
}

#[test]
fn reads_beside_inputs_are_caught() {
    caught("reads past the end", |problem| matches!(problem, Problem::NotRepeatable(_)));
    caught("reads scratch", |problem| matches!(problem, Problem::Wrong { .. }));
}

#[test]
fn kept_state_is_caught() {
    caught("remembers", |problem| matches!(problem, Problem::NotRepeatable(_)));
}

#[test]
fn thread_counts_that_matter_are_caught() {
    caught("depends on threads", |problem| matches!(problem, Problem::ThreadCount(_)));
    assert!(
        of("depends on threads").iter().all(|failure| matches!(failure.problem, Problem::ThreadCount(_)))
    );
}

#[test]
fn kernels_that_only_work_apart_are_caught() {
    let failures = of("not in place");
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|failure| failure.variant.starts_with("y over x")), "{failures:?}");
}

#[test]
fn panics_are_caught() {
    caught("panics", |problem| matches!(problem, Problem::Error(text) if text.contains("as it must")));
}

#[test]
fn declined_and_doubled_things_are_seen() {
    let declined = &report().declined;
    assert_eq!(declined.len(), 1);
    assert_eq!((declined[0].kernel, declined[0].reason), ("declines", "never fits"));
    assert!(report().failures.iter().any(|failure| matches!(failure.problem, Problem::BadCase(_))));
}

#[test]
fn failures_name_everything() {
    let text = of("inexact")[0].to_string();
    for part in ["doubled", "cpu portable", "inexact", "some", "aligned", "y[", "expected", "nmse"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}
