//! All ops, all cases, all devices, all kernels that fit, all layouts.

use crate::layout::{Effort, Layout, layouts};
use crate::report::{Declined, Failure, Problem, Report, Tally, Unsupported};
use crate::subject::{Call, Subject};
use crate::target::Target;
use crate::trial::{Results, Trial, differences, run_default};
use rustc_hash::FxHashSet;
use silicide_core::DeviceInfo;
use silicide_core::kernel::Step;
use silicide_hal::Program;
use silicide_ops::Case;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A step of a run, for a progress line.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The op of this name begins; it has this number of cases.
    Op(&'static str, usize),
    /// One of its cases is done on all devices.
    Case,
}

/// Tries everything.
pub fn run(
    ops: &[(&'static str, Vec<Case>)],
    targets: &[Target],
    effort: Effort,
    progress: &dyn Fn(Event),
) -> Report {
    let mut report = Report::default();
    for (op, cases) in ops {
        progress(Event::Op(op, cases.len()));
        let mut session = Session::new(op, targets, effort);
        session.warm_up(cases);
        let mut labels = FxHashSet::default();
        for case in cases {
            if !labels.insert(&case.label) {
                session.bad_case(&case.label, "another case has the same label".to_owned());
            }
            session.try_case(case);
            progress(Event::Case);
        }
        session.finish(&mut report);
    }
    report
}

/// The WGSL and native programs that the fitting kernels of a call would launch on a device, with their kernels.
pub fn programs(call: &Call, on: &DeviceInfo) -> Vec<(&'static str, Program)> {
    let mut programs = Vec::new();
    for i in 0..call.op.kernel_count() {
        if call.op.kernel_fits(i, &call.io(), on).is_ok() {
            for step in call.op.kernel_plan(i, &call.io(), on).steps {
                if let Step::Dispatch(launch) = step {
                    programs.push((call.op.kernel_name(i), launch.program));
                }
            }
        }
    }
    programs
}

/// One op on all targets.
struct Session<'a> {
    op: &'static str,
    targets: &'a [Target],
    effort: Effort,
    /// One for each target.
    tallies: Vec<Tally>,
    found: Report,
}

impl<'a> Session<'a> {
    fn new(op: &'static str, targets: &'a [Target], effort: Effort) -> Session<'a> {
        let tally = |target: &Target| Tally { op, device: target.device.clone(), ..Tally::default() };
        let tallies = targets.iter().map(tally).collect();
        Session { op, targets, effort, tallies, found: Report::default() }
    }

    /// Compiles everything for GPUs at once, which uses all cores. Failures show again in the trials.
    fn warm_up(&mut self, cases: &[Case]) {
        for (target, tally) in self.targets.iter().zip(&mut self.tallies) {
            let info = target.main.info();
            if info.is_gpu() {
                let begin = Instant::now();
                let mut unique = FxHashSet::default();
                for call in cases.iter().filter_map(|case| Call::of(case).ok()) {
                    for layout in layouts(&call, self.effort) {
                        unique.extend(programs(&layout.place(&call), info).into_iter().map(|(_, p)| p));
                    }
                }
                let unique: Vec<Program> = unique.into_iter().collect();
                let _ = target.main.kernels().warm_up(&unique);
                tally.seconds += begin.elapsed().as_secs_f64();
            }
        }
    }

    fn bad_case(&mut self, case: &str, what: String) {
        let (case, variant, device) = (case.to_owned(), String::new(), String::new());
        let problem = Problem::BadCase(what);
        self.found.failures.push(Failure { op: self.op, device, kernel: "", case, variant, problem });
    }

    fn try_case(&mut self, case: &Case) {
        let made = catch_unwind(AssertUnwindSafe(|| Subject::new(case)));
        match made.unwrap_or_else(|panic| Err(message(&*panic))) {
            Err(what) => self.bad_case(&case.label, what),
            Ok(subject) => {
                let layouts = layouts(&subject.call, self.effort);
                let targets = self.targets;
                for (index, target) in targets.iter().enumerate() {
                    let begin = Instant::now();
                    self.try_target(index, target, &subject, &layouts);
                    if let Some(tally) = self.tallies.get_mut(index) {
                        tally.cases += 1;
                        tally.seconds += begin.elapsed().as_secs_f64();
                    }
                }
            }
        }
    }

    fn try_target(&mut self, index: usize, target: &Target, subject: &Subject, layouts: &[Layout]) {
        let mut place = TrialContext { index, target, case: &subject.label, kernel: "", variant: "" };
        for layout in layouts {
            place.variant = &layout.label;
            let call = layout.place(&subject.call);
            let mut fitting = 0;
            for i in 0..call.op.kernel_count() {
                place.kernel = call.op.kernel_name(i);
                match call.op.kernel_fits(i, &call.io(), target.main.info()) {
                    Ok(_) => {
                        fitting += 1;
                        self.try_kernel(&place, subject, layout);
                    }
                    Err(decline) => self.decline(&place, decline.0),
                }
            }
            if fitting == 0 {
                self.unsupported(&place);
            } else if layout.label == "aligned" {
                (place.kernel, place.variant) = ("", "default kernel");
                let problems = guarded(|| ((), run_default(&target.main, subject))).1;
                self.count(&place, problems);
            }
        }
    }

    fn try_kernel(&mut self, place: &TrialContext<'_>, subject: &Subject, layout: &Layout) {
        let (target, kernel) = (place.target, place.kernel);
        let attempt = |device| guarded(|| Trial { device, subject, layout, kernel }.run());
        let (expected, problems) = attempt(&target.main);
        self.count(place, problems);
        for other in &target.others {
            let (results, mut problems) = attempt(other);
            let both = expected.as_ref().zip(results.as_ref());
            if let Some(what) =
                both.and_then(|(expected, got): (&Results, _)| differences(subject, expected, got))
            {
                let (threads, others) = (target.main.info().threads, other.info().threads);
                problems = vec![Problem::ThreadCount(format!("with {threads} and {others} threads {what}"))];
            } else if expected.is_some() {
                // A problem at every number of threads was reported for `target.main`.
                problems.retain(|problem| matches!(problem, Problem::Error(_)));
            }
            self.count(place, problems);
        }
    }

    fn count(&mut self, place: &TrialContext<'_>, problems: Vec<Problem>) {
        if let Some(tally) = self.tallies.get_mut(place.index) {
            tally.runs += 1;
            tally.failures += problems.len();
        }
        self.found.failures.extend(problems.into_iter().map(|problem| place.failure(self.op, problem)));
    }

    fn decline(&mut self, place: &TrialContext<'_>, reason: &'static str) {
        if let Some(tally) = self.tallies.get_mut(place.index) {
            tally.declined += 1;
        }
        let (op, kernel, device) = (self.op, place.kernel, place.target.device.clone());
        self.found.decline(Declined { op, device, kernel, reason, times: 1 });
    }

    fn unsupported(&mut self, place: &TrialContext<'_>) {
        if let Some(tally) = self.tallies.get_mut(place.index) {
            tally.unsupported += 1;
        }
        let (case, variant) = (place.case.to_owned(), place.variant.to_owned());
        let missing = Unsupported { op: self.op, device: place.target.label.clone(), case, variant };
        self.found.unsupported.push(missing);
    }

    /// Adds what was found to the report, instruction sets taken together.
    fn finish(mut self, report: &mut Report) {
        for (tally, target) in self.tallies.iter_mut().zip(self.targets) {
            let elsewhere = silicide_ops::is_for_cpu(self.op) && target.main.info().is_gpu();
            if tally.runs == 0 && !elsewhere {
                tally.failures += 1;
                self.found
                    .failures
                    .push(Failure { op: self.op, ..Failure::of_device(&target.label, Problem::NothingRuns) });
            }
        }
        let mut merged: Vec<Tally> = Vec::new();
        for tally in self.tallies {
            match merged.iter_mut().find(|known| known.device == tally.device) {
                Some(known) => {
                    known.runs += tally.runs;
                    known.declined += tally.declined;
                    known.unsupported += tally.unsupported;
                    known.failures += tally.failures;
                    known.seconds += tally.seconds;
                }
                None => merged.push(tally),
            }
        }
        report.tallies.extend(merged);
        report.failures.extend(self.found.failures);
        report.unsupported.extend(self.found.unsupported);
        for declined in self.found.declined {
            report.decline(declined);
        }
    }
}

/// Where a trial happens.
#[derive(Clone, Copy)]
struct TrialContext<'a> {
    index: usize,
    target: &'a Target,
    case: &'a str,
    kernel: &'static str,
    variant: &'a str,
}

impl TrialContext<'_> {
    fn failure(&self, op: &'static str, problem: Problem) -> Failure {
        let (device, case) = (self.target.label.clone(), self.case.to_owned());
        Failure { op, device, kernel: self.kernel, case, variant: self.variant.to_owned(), problem }
    }
}

/// A panic while planning or recording is a failure of the kernel, not of the program.
fn guarded<T: Default>(trial: impl FnOnce() -> (T, Vec<Problem>)) -> (T, Vec<Problem>) {
    catch_unwind(AssertUnwindSafe(trial)).unwrap_or_else(|panic| {
        (T::default(), vec![Problem::Error(format!("panicked: {}", message(&*panic)))])
    })
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}
