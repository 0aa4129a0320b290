//! Plans of CPU kernels, changed by safe code, on guard pages.
//!
//! An input is as in `ops.rs`; the bytes that follow change the plan of one kernel: parameter words, grids, windows, bindings
//! that are dropped or swapped, scratch memory that is too small. A plan is data that any safe code may make. So lowering
//! refuses the changed plan, or its programs stay in their bindings and return.

use super::ops::{Choices, OpCall, choose, refused};
use crate::guard;
use crate::target::Outcome;
use silicide_core::kernel::{
    Arg, Cost, Decline, DynOp, Host, Io, Kernel, Launch, Op, Outputs, Plan, Slot, Step, TensorInfo,
};
use silicide_core::{Buffer, CommandEncoder, DeviceInfo, Result};
use std::sync::Arc;

/// The op of a case, with a plan of its kernel `kernel` that the choices change.
#[derive(Clone, Debug)]
struct Changed {
    op: Arc<dyn DynOp>,
    kernel: usize,
    choices: Vec<u8>,
}

impl PartialEq for Changed {
    fn eq(&self, other: &Changed) -> bool {
        self.op.is_same(&*other.op) && (self.kernel, &self.choices) == (other.kernel, &other.choices)
    }
}

struct ChangedPlan;

impl Op for Changed {
    fn name(&self) -> &'static str {
        "changed"
    }
    fn slots(&self) -> &'static [Slot] {
        self.op.slots()
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        self.op.infer(inputs)
    }
    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        self.op.check_outputs(inferred, given)
    }
    fn reference(&self, _: &[Host], _: &mut [Host]) {}
    fn kernels() -> &'static [&'static dyn Kernel<Op = Changed>] {
        &[&ChangedPlan]
    }
}

impl Kernel for ChangedPlan {
    type Op = Changed;
    fn name(&self) -> &'static str {
        "changed.plan"
    }
    fn fits(&self, op: &Changed, io: &Io<'_>, on: &DeviceInfo) -> std::result::Result<Cost, Decline> {
        op.op.kernel_fits(op.kernel, io, on)
    }
    fn plan(&self, op: &Changed, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let mut plan = op.op.kernel_plan(op.kernel, io, on);
        let mut choices = Choices::new(&op.choices);
        for _ in 0..1 + choices.byte() % 3 {
            change(&mut plan, &mut choices);
        }
        plan
    }
}

fn change(plan: &mut Plan, choices: &mut Choices<'_>) {
    if choices.byte() % 8 == 7 && !plan.scratch.is_empty() {
        let which = usize::from(choices.byte()) % plan.scratch.len();
        if let Some(bytes) = plan.scratch.get_mut(which) {
            *bytes = bytes.saturating_sub(usize::from(choices.byte()) + 1);
        }
        return;
    }
    let step = usize::from(choices.byte()) % plan.steps.len().max(1);
    if let Some(Step::Dispatch(launch)) = plan.steps.get_mut(step) {
        change_launch(launch, choices);
    }
}

fn change_launch(launch: &mut Launch, choices: &mut Choices<'_>) {
    let (kind, which) = (choices.byte() % 6, usize::from(choices.byte()));
    match kind {
        0..=2 if !launch.params.is_empty() => {
            let which = which % launch.params.len();
            if let Some(word) = launch.params.get_mut(which) {
                *word = changed(*word, choices);
            }
        }
        3 => {
            let axis = which % launch.grid.len();
            launch.grid[axis] = changed(launch.grid[axis], choices);
        }
        4 if !launch.args.is_empty() => {
            let which = which % launch.args.len();
            if let Some(arg) = launch.args.get_mut(which) {
                *arg = windowed(*arg, choices);
            }
        }
        _ if launch.args.len() > 1 => {
            let (one, other) = (which % launch.args.len(), usize::from(choices.byte()) % launch.args.len());
            match choices.byte() % 3 {
                0 => launch.args.swap(one, other),
                1 => drop(launch.args.remove(one)),
                _ => {
                    let arg = launch.args[other];
                    launch.args[one] = arg;
                }
            }
        }
        _ => {}
    }
}

/// Another word: small, near, half or twice. Larger ones are refused, or make work without end of nothing.
fn changed(word: u32, choices: &mut Choices<'_>) -> u32 {
    let by = choices.byte();
    match choices.byte() % 7 {
        0 => word.wrapping_add(1),
        1 => word.wrapping_sub(1).min(1 << 20),
        2 => word / 2,
        3 => word.wrapping_mul(2).min(1 << 20),
        4 => u32::from(by),
        5 => u32::from(by) * 16,
        _ => word ^ 1 << (by % 12),
    }
}

/// A window that is shorter, or begins later.
fn windowed(arg: Arg, choices: &mut Choices<'_>) -> Arg {
    let bytes = usize::from(choices.byte()) + 1;
    match (choices.byte() % 2, arg.bytes) {
        (0, usize::MAX) => arg.window(arg.start + bytes, usize::MAX),
        (0, all) => arg.window(arg.start + bytes, all.saturating_sub(bytes)),
        (_, usize::MAX) => arg.window(arg.start, bytes * 16),
        (_, all) => arg.window(arg.start, all.saturating_sub(bytes)),
    }
}

/// Runs one kernel that fits the case, by a changed plan.
pub(super) fn plans(bytes: &[u8]) -> Outcome {
    let (case, device, edge, call, mut choices) = match choose(bytes) {
        Ok(chosen) => chosen,
        Err(outcome) => return outcome,
    };
    let OpCall { inputs, contents, outputs } = &call;
    let io = Io { inputs, outputs };
    let fitting: Vec<usize> =
        (0..case.op.kernel_count()).filter(|&i| case.op.kernel_fits(i, &io, device.info()).is_ok()).collect();
    let Some(&kernel) = fitting.get(usize::from(choices.byte()) % fitting.len().max(1)) else {
        return refused("NoKernel");
    };
    let op = Changed { op: Arc::clone(&case.op), kernel, choices: choices.rest() };
    let run = || -> Result<()> {
        let place = |info: &TensorInfo, contents: &[u8]| {
            guard::buffer(device, (info.dtype, info.shape), contents, edge)
        };
        let given: Vec<Buffer> =
            inputs.iter().zip(contents).map(|(info, bytes)| place(info, bytes)).collect::<Result<_>>()?;
        let made: Vec<Buffer> =
            outputs.iter().map(|info| place(info, &vec![0xff; info.bytes()])).collect::<Result<_>>()?;
        let mut encoder = CommandEncoder::new(device);
        encoder.record_into(&op, &given.iter().collect::<Vec<_>>(), &made.iter().collect::<Vec<_>>())?;
        encoder.submit()?.wait()
    };
    match run() {
        Ok(()) => Outcome::Accepted,
        Err(error) => Outcome::refused(&error),
    }
}
