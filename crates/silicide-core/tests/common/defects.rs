//! An op whose only kernel plans what must not be planned.

use super::ops::{native_add, shader_add};
use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo,
};
use silicide_core::{DeviceInfo, Result};

/// `y = a + b`, planned with a defect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Defective {
    /// No defect: a launch, with this much scratch memory that it does not use.
    None(usize),
    /// A grid with a zero.
    EmptyGrid,
    /// A window that ends outside of its argument.
    Outside { start: usize, bytes: usize },
    /// A slot that the op does not have.
    MissingSlot,
    /// Scratch memory that the plan does not have.
    MissingScratch,
    /// That many parameter words.
    Parameters(usize),
    /// That many bindings.
    Bindings(usize),
    /// A copy between windows of different lengths.
    UnevenCopy,
    /// A copy between windows of one argument that overlap.
    OverlappingCopy,
    /// A copy into an input.
    CopyToInput,
    /// A fill of a part of a word.
    BrokenFill,
    /// A fill of an input.
    FillInput,
    /// A good launch, followed by a bad one.
    SecondStep,
}

struct Plans;

impl Op for Defective {
    fn name(&self) -> &'static str {
        "defective"
    }
    fn slots(&self) -> &'static [Slot] {
        const SLOTS: &[Slot] = &[Slot::input("a"), Slot::input("b"), Slot::output("y")];
        SLOTS
    }
    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        Ok(inputs.iter().take(1).map(|info| TensorInfo::new(info.dtype, info.shape)).collect())
    }
    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        outputs[0].values.copy_from_slice(&inputs[0].values);
    }
    fn kernels() -> &'static [&'static dyn Kernel<Op = Defective>] {
        const KERNELS: &[&dyn Kernel<Op = Defective>] = &[&Plans];
        KERNELS
    }
}

impl Kernel for Plans {
    type Op = Defective;
    fn name(&self) -> &'static str {
        "defective.plans"
    }
    fn fits(&self, _: &Defective, _: &Io<'_>, _: &DeviceInfo) -> Result<Cost, Decline> {
        Ok(Cost::GOOD)
    }
    fn plan(&self, op: &Defective, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let program = if on.is_gpu() { shader_add() } else { native_add() };
        let elements = io.output(0).elements() as u32;
        let grid = [elements.div_ceil(256), 1, 1];
        let args = [Arg::slot(0), Arg::slot(1), Arg::slot(2)];
        let launch = |args: &[Arg]| Plan::launch(program.clone(), args, &[elements], grid);
        let step = |step: Step| Plan { steps: [step].into_iter().collect(), ..Plan::default() };
        match *op {
            Defective::None(scratch) => Plan { scratch: [scratch].into_iter().collect(), ..launch(&args) },
            Defective::EmptyGrid => Plan::launch(program, &args, &[elements], [1, 0, 1]),
            Defective::Outside { start, bytes } => {
                launch(&[Arg::slot(0), Arg::slot(1), Arg::slot(2).window(start, bytes)])
            }
            Defective::MissingSlot => launch(&[Arg::slot(0), Arg::slot(1), Arg::slot(3)]),
            Defective::MissingScratch => {
                launch(&[Arg::slot(0), Arg::slot(1), Arg::scratch(0, Access::Write)])
            }
            Defective::Parameters(words) => Plan::launch(program, &args, &vec![elements; words], grid),
            Defective::Bindings(count) => launch(&vec![Arg::slot(0); count]),
            Defective::UnevenCopy => {
                step(Step::Copy { from: Arg::slot(0).window(0, 8), to: Arg::slot(2).window(0, 12) })
            }
            Defective::OverlappingCopy => {
                step(Step::Copy { from: Arg::slot(2).window(0, 8), to: Arg::slot(2).window(4, 8) })
            }
            Defective::CopyToInput => step(Step::Copy { from: Arg::slot(0), to: Arg::slot(1) }),
            Defective::BrokenFill => step(Step::Fill { to: Arg::slot(2).window(0, 6), value: 1 }),
            Defective::FillInput => step(Step::Fill { to: Arg::slot(0), value: 1 }),
            Defective::SecondStep => {
                let mut plan = launch(&args);
                plan.push(program.clone(), &args, &[elements], [0, 1, 1]);
                plan
            }
        }
    }
}
