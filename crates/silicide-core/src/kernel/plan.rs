//! Kernels and plans: *how* an op is computed. A kernel says whether it fits and at what cost, then plans its
//! steps; the recorder turns a plan into commands and derives every barrier from the access of its arguments.

use super::op::{Io, Op, Tolerance};
use silicide_hal::{Access, DeviceInfo, Program};
use smallvec::SmallVec;

/// The expected cost of a kernel. The lowest wins, and the earlier of equals. Only the order matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(pub u32);

impl Cost {
    /// A kernel made for this case.
    pub const BEST: Cost = Cost(10);
    /// A good general kernel.
    pub const GOOD: Cost = Cost(100);
    /// Always right, rarely fast.
    pub const FALLBACK: Cost = Cost(1000);
}

/// Why a kernel can't run a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline(pub &'static str);

/// One way to compute an op. [`Op`](super::Op) has an example.
///
/// It is safe to implement: a plan is data, and each of its steps is checked when it is recorded. A launch whose program
/// needs more of a binding than the plan binds is refused with [`Error::BadPlan`](crate::Error::BadPlan). What remains
/// unsafe is to make a program ([`NativeKernel::new`](silicide_hal::NativeKernel::new),
/// [`WgslKernel::unchecked`](silicide_hal::WgslKernel::unchecked)).
pub trait Kernel: Send + Sync {
    /// The op.
    type Op: Op;
    /// `op.format.shape.variant`: `rms_norm.rows.cpu`, `matmul.f32.tiled.wgsl`.
    fn name(&self) -> &'static str;
    /// Returns the cost of this call on this device, or why it can't run it. Deterministic.
    fn fits(&self, op: &Self::Op, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline>;
    /// Returns the steps. Only called if `fits` returned a cost.
    fn plan(&self, op: &Self::Op, io: &Io<'_>, on: &DeviceInfo) -> Plan;
    /// Returns the tolerance of a kernel that rounds more than [`Op::tolerance`] allows: of factors to f16, for example.
    fn tolerance(&self) -> Option<Tolerance> {
        None
    }
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// Argument `i` of the op, inputs first; its access is the slot's.
    Slot(u8),
    /// Scratch memory `i` of the plan, touched in this way.
    Scratch(u8, Access),
    /// Words that never change, which the device keeps from their first use on; only read.
    Table(&'static [u32]),
}

/// An operand and the part of it that the step sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Which memory.
    pub operand: Operand,
    /// First byte, from the operand's start.
    pub start: usize,
    /// Length in bytes; `usize::MAX` means to the end.
    pub bytes: usize,
}

impl Arg {
    /// All of argument `i` (inputs first, then outputs).
    pub const fn slot(i: u8) -> Arg {
        Arg { operand: Operand::Slot(i), start: 0, bytes: usize::MAX }
    }
    /// All of scratch memory `i`.
    pub const fn scratch(i: u8, access: Access) -> Arg {
        Arg { operand: Operand::Scratch(i, access), start: 0, bytes: usize::MAX }
    }
    /// A table. A WGSL kernel binds tables after everything else; they start where their bindings do, so they have no
    /// offset words.
    pub const fn table(words: &'static [u32]) -> Arg {
        Arg { operand: Operand::Table(words), start: 0, bytes: usize::MAX }
    }
    /// Only bytes `start..start + bytes` of it.
    pub const fn window(self, start: usize, bytes: usize) -> Arg {
        Arg { operand: self.operand, start, bytes }
    }
}

/// One command of a plan. Launches are by far the most common, so they are not boxed.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Launch a kernel.
    Dispatch(Launch),
    /// Copy bytes between operands.
    Copy {
        /// From.
        from: Arg,
        /// To; the same length.
        to: Arg,
    },
    /// Fill with a repeated word.
    Fill {
        /// Where; whole words.
        to: Arg,
        /// With what.
        value: u32,
    },
}

/// A kernel launch of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The program.
    pub program: Program,
    /// Bindings, in order.
    pub args: SmallVec<[Arg; 6]>,
    /// The kernel's own parameter words. For WGSL the recorder puts one offset word per binding before them.
    pub params: SmallVec<[u32; 16]>,
    /// Workgroups (GPU) or tiles (CPU).
    pub grid: [u32; 3],
}

/// The steps of one call, and the scratch memory they share.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In order; barriers are derived.
    pub steps: SmallVec<[Step; 1]>,
    /// Bytes of each scratch operand. Contents are unspecified when the plan starts.
    pub scratch: SmallVec<[usize; 2]>,
}

impl Plan {
    /// Bytes of workspace that a tile of its launches uses, at most.
    pub fn workspace(&self) -> usize {
        let of = |step: &Step| if let Step::Dispatch(launch) = step { launch.program.workspace() } else { 0 };
        self.steps.iter().map(of).max().unwrap_or(0)
    }

    /// A plan of one launch.
    #[inline]
    pub fn launch(program: Program, args: &[Arg], params: &[u32], grid: [u32; 3]) -> Plan {
        let mut plan = Plan::default();
        plan.push(program, args, params, grid);
        plan
    }

    /// Appends a launch.
    #[inline]
    pub fn push(&mut self, program: Program, args: &[Arg], params: &[u32], grid: [u32; 3]) {
        let (args, params) = (SmallVec::from_slice(args), SmallVec::from_slice(params));
        self.steps.push(Step::Dispatch(Launch { program, args, params, grid }));
    }

    /// Adds scratch memory and returns its number. A plan with more than 255 of them is refused when it is recorded.
    pub fn scratch(&mut self, bytes: usize) -> u8 {
        self.scratch.push(bytes);
        (self.scratch.len() - 1).min(u8::MAX as usize) as u8
    }
}
