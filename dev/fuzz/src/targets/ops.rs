//! Every CPU kernel of an op that fits a case, on guard pages.
//!
//! An input is the name of a case (`op|label`), a line feed, and bytes that choose the rest: the instruction set, the
//! edge, changed extents, hostile ids, random bits. Zero bytes choose the case as it stands. A kernel may compute
//! anything from hostile contents, but it must stay in its bindings, leave its inputs alone, and return.

use crate::guard::{self, Edge};
use crate::target::{Outcome, Seed};
use fastrand::Rng;
use silicide_core::kernel::{DynOp, Io, TensorInfo};
use silicide_core::{Buffer, CommandEncoder, Device, DeviceOptions, EncoderOptions, Error, Result};
use silicide_ops::Case;
use silicide_quant::{DType, Shape};
use std::sync::OnceLock;

/// Cases with more input elements than this take too long.
const ELEMENTS: usize = 200_000;
/// Ids, slots and positions at the edges of their types.
const HOSTILE: [u32; 6] = [0, 1, 63, i32::MAX as u32, 1 << 31, u32::MAX];

/// A case with its name.
struct Named {
    name: String,
    case: Case,
}

fn cases() -> &'static [Named] {
    static CASES: OnceLock<Vec<Named>> = OnceLock::new();
    CASES.get_or_init(|| {
        let all = silicide_ops::all().into_iter();
        let named = all.flat_map(|(op, cases)| {
            cases.into_iter().map(move |case| Named { name: format!("{op}|{}", case.label), case })
        });
        let elements = |case: &Case| case.inputs.iter().map(|input| input.shape.elements()).sum::<usize>();
        named.filter(|named| elements(&named.case) < ELEMENTS).collect()
    })
}

/// Every case as it stands, with each instruction set in turn.
pub(super) fn seeds() -> Vec<Seed> {
    let seed = |(i, named): (usize, &Named)| {
        let mut bytes = named.name.clone().into_bytes();
        bytes.push(b'\n');
        bytes.extend([i as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        Seed { name: named.name.clone(), bytes }
    };
    cases().iter().enumerate().map(seed).collect()
}

/// The CPU once for each instruction set, with two threads.
fn devices() -> &'static [Device] {
    static DEVICES: OnceLock<Vec<Device>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut options = DeviceOptions::default();
        options.threads = Some(2);
        options.poison_scratch = true;
        super::cpu_devices(&options)
    })
}

/// The bytes of an input that choose how a case runs. Past their end every choice is 0.
pub(super) struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    pub(super) fn new(bytes: &[u8]) -> Choices<'_> {
        Choices(bytes.iter())
    }

    /// Returns the bytes that are left.
    pub(super) fn rest(self) -> Vec<u8> {
        self.0.copied().collect()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// Whether a choice was made to do something with a chance of one in `one_in`.
    fn chance(&mut self, one_in: u8) -> bool {
        let byte = self.byte();
        byte != 0 && byte.is_multiple_of(one_in)
    }

    fn generator(&mut self) -> Rng {
        Rng::with_seed(u64::from_le_bytes(std::array::from_fn(|_| self.byte())))
    }
}

/// The choices of an input: a case, a device, an edge, a call, and choices that are left.
pub(super) type Chosen<'a> = (&'static Case, &'static Device, Edge, OpCall, Choices<'a>);

/// Runs every kernel that fits the case.
pub(super) fn ops(bytes: &[u8]) -> Outcome {
    match choose(bytes) {
        Ok((case, device, edge, call, _)) => run_kernels(case, (device, edge), &call),
        Err(outcome) => outcome,
    }
}

/// Makes the choices of an input.
pub(super) fn choose(bytes: &[u8]) -> std::result::Result<Chosen<'_>, Outcome> {
    let end = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (name, rest) = bytes.split_at(end);
    let (cases, devices) = (cases(), devices());
    let hash =
        || name.iter().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let named = cases.iter().find(|named| named.name.as_bytes() == name);
    let Some(named) = named.or_else(|| cases.get(hash() % cases.len().max(1))) else {
        return Err(refused("NoCase"));
    };
    let mut choices = Choices::new(rest.get(1..).unwrap_or_default());
    let Some(device) = devices.get(usize::from(choices.byte()) % devices.len().max(1)) else {
        return Err(refused("NoDevice"));
    };
    let edge = if choices.byte() & 1 == 0 { Edge::End } else { Edge::Start };
    let Some(mut call) = OpCall::new(&named.case, &mut choices) else { return Err(refused("Shape")) };
    let Ok(inferred) = named.case.op.infer(&call.inputs) else { return Err(refused("Infer")) };
    call.outputs = match named.case.outputs.as_slice() {
        [] => inferred.to_vec(),
        given => given.iter().map(|output| TensorInfo::new(output.dtype, output.shape)).collect(),
    };
    Ok((&named.case, device, edge, call, choices))
}

pub(super) fn refused(kind: &str) -> Outcome {
    Outcome::Refused(kind.to_owned())
}

/// The arguments of a run.
pub(super) struct OpCall {
    pub(super) inputs: Vec<TensorInfo>,
    pub(super) contents: Vec<Vec<u8>>,
    pub(super) outputs: Vec<TensorInfo>,
}

impl OpCall {
    /// A call without outputs.
    fn new(case: &Case, choices: &mut Choices<'_>) -> Option<OpCall> {
        let mut random = choices.generator();
        let mut call = OpCall { inputs: Vec::new(), contents: Vec::new(), outputs: Vec::new() };
        for input in &case.inputs {
            let mut extents = input.shape.axes().to_vec();
            if choices.chance(3) && !extents.is_empty() {
                let axis = usize::from(choices.byte()) % extents.len();
                let extent = extents.get_mut(axis)?;
                *extent = match choices.byte() % 4 {
                    0 => *extent + 1,
                    1 => extent.saturating_sub(1).max(1),
                    2 => 1,
                    _ => *extent + usize::from(choices.byte() % 40),
                };
            }
            let shape = Shape::new(&extents).ok()?;
            let size = shape.bytes(input.dtype).ok()?;
            let mut contents = input.bytes(random.u64(..));
            if size != contents.len() {
                contents = contents.iter().copied().cycle().take(size).collect();
            }
            if matches!(input.dtype, DType::I32 | DType::U32) && choices.chance(2) {
                spoil_ids(&mut contents, &mut random);
            } else if choices.chance(4) {
                random.fill(&mut contents);
            }
            call.inputs.push(TensorInfo::new(input.dtype, shape));
            call.contents.push(contents);
        }
        call.contents.iter().all(|contents| !contents.is_empty()).then_some(call)
    }
}

/// Replaces about a third of the numbers with hostile ones.
fn spoil_ids(contents: &mut [u8], random: &mut Rng) {
    for word in contents.chunks_exact_mut(4) {
        if random.u8(..3) == 0 {
            let edge = random.choice(HOSTILE).unwrap_or(0);
            let value = [edge, random.u32(..), random.u32(..1000)];
            word.copy_from_slice(&random.choice(value).unwrap_or(0).to_le_bytes());
        }
    }
}

fn run_kernels(case: &Case, place: (&Device, Edge), call: &OpCall) -> Outcome {
    let op: &dyn DynOp = &*case.op;
    let io = Io { inputs: &call.inputs, outputs: &call.outputs };
    let mut last = refused("NoKernel");
    for kernel in 0..op.kernel_count() {
        if op.kernel_fits(kernel, &io, place.0.info()).is_err() {
            continue;
        }
        match run_kernel(op, op.kernel_name(kernel), place, call) {
            Ok(()) => last = Outcome::Accepted,
            Err(error) => {
                let defect =
                    matches!(error, Error::BadPlan { .. } | Error::Device { .. } | Error::Poisoned { .. });
                assert!(!defect, "{}: {} on {io}: {error}", case.label, op.kernel_name(kernel));
                if last != Outcome::Accepted {
                    last = Outcome::refused(&error);
                }
            }
        }
    }
    last
}

fn run_kernel(op: &dyn DynOp, kernel: &'static str, place: (&Device, Edge), call: &OpCall) -> Result<()> {
    let (device, edge) = place;
    let on_guards =
        |info: &TensorInfo, contents: &[u8]| guard::buffer(device, (info.dtype, info.shape), contents, edge);
    let contents = call.inputs.iter().zip(&call.contents);
    let inputs: Vec<Buffer> =
        contents.map(|(info, contents)| on_guards(info, contents)).collect::<Result<_>>()?;
    let blank = |info: &TensorInfo| on_guards(info, &vec![0xff; info.bytes()]);
    let outputs: Vec<Buffer> = call.outputs.iter().map(blank).collect::<Result<_>>()?;
    let mut options = EncoderOptions::default();
    options.kernel = Some(kernel);
    let mut encoder = CommandEncoder::with(device, options);
    encoder.record_into(op, &inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())?;
    encoder.submit()?.wait()?;
    let reads = op.slots().iter().filter(|slot| !slot.access.writes());
    for ((input, before), slot) in inputs.iter().zip(&call.contents).zip(reads) {
        let after = input.reinterpret(DType::U8)?.to_vec::<u8>()?;
        assert!(after == *before, "{kernel} wrote to its input {}", slot.name);
    }
    Ok(())
}
