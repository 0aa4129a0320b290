//! Each product, bias and gate of `linear` in launches of its own, for calls that no other kernel takes: weights larger than a binding,
//! more planes than a device binds, gates whose weights are cut differently.

use super::Linear;
use crate::binary::Binary;
use crate::glu::Glu;
use silicide_core::kernel::{Access, Arg, Cost, Decline, DynOp, Io, Kernel, Operand, Plan, Step, TensorInfo};
use silicide_hal::DeviceInfo;
use smallvec::SmallVec;

/// The kernel, on every device.
pub(super) struct Steps;

impl Kernel for Steps {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.steps"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        steps(op, io, on).map(|_| Cost(2 * Cost::FALLBACK.0))
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        steps(op, io, on).unwrap_or_default()
    }
}

/// A tensor and the memory that it is in.
type Bound = (TensorInfo, Arg);

fn steps(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    if op.single().is_some() {
        return Err(Decline("one product has kernels of its own"));
    }
    if op.quantized {
        return Err(Decline("gives no quantized rows"));
    }
    let mut plan = Plan::default();
    let slots = io.inputs.iter().zip(0..).map(|(info, slot)| (*info, Arg::slot(slot)));
    let slots: SmallVec<[Bound; 8]> = slots.collect();
    let mut made: SmallVec<[Bound; 3]> = SmallVec::new();
    for (i, (product, place)) in op.calls().enumerate() {
        let y = op.product(io, i);
        let bias = place.bias.and_then(|bias| slots.get(bias)).copied();
        let (alone, inputs) = op.alone(product, &place, &slots);
        let own = Arg::slot((io.inputs.len() + i) as u8);
        let scratch = |plan: &mut Plan| Arg::scratch(plan.scratch(y.bytes()), Access::Write);
        let sums = if bias.is_some() || op.gate.is_some() { scratch(&mut plan) } else { own };
        append(&mut plan, &alone, &inputs, (y, sums), on)?;
        let mut last = sums;
        if let Some(bias) = bias {
            last = if op.gate.is_some() { scratch(&mut plan) } else { own };
            append(&mut plan, &Binary::Add, &[(y, sums), bias], (y, last), on)?;
        }
        made.push((y, last));
    }
    if let Some(activation) = op.gate {
        let y = (io.output(0), Arg::slot(io.inputs.len() as u8));
        append(&mut plan, &Glu::new(activation), &made, y, on)?;
    }
    Ok(plan)
}

/// Appends the plan of the cheapest kernel of `op`, over memory of this plan.
fn append(
    plan: &mut Plan,
    op: &dyn DynOp,
    inputs: &[Bound],
    output: Bound,
    on: &DeviceInfo,
) -> Result<(), Decline> {
    let infos: SmallVec<[TensorInfo; 4]> = inputs.iter().map(|(info, _)| *info).collect();
    let outputs = [output.0];
    let io = Io { inputs: &infos, outputs: &outputs };
    let costs = (0..op.kernel_count()).filter_map(|i| Some((op.kernel_fits(i, &io, on).ok()?, i)));
    let (_, kernel) = costs.min().ok_or(Decline("a part has no kernel"))?;
    let part = op.kernel_plan(kernel, &io, on);
    let first = u8::try_from(plan.scratch.len()).map_err(|_| Decline("takes too much scratch memory"))?;
    let bind = |arg: &mut Arg| {
        arg.operand = match arg.operand {
            Operand::Slot(slot) => match inputs.get(usize::from(slot)) {
                Some((_, input)) => with_access(input.operand, Access::Read),
                None => with_access(output.1.operand, Access::Write),
            },
            Operand::Scratch(number, access) => Operand::Scratch(number.saturating_add(first), access),
            table @ Operand::Table(_) => table,
        };
    };
    plan.scratch.extend(part.scratch);
    for mut step in part.steps {
        match &mut step {
            Step::Dispatch(launch) => launch.args.iter_mut().for_each(bind),
            Step::Copy { from, to } => [from, to].into_iter().for_each(bind),
            Step::Fill { to, .. } => bind(to),
        }
        plan.steps.push(step);
    }
    Ok(())
}

/// Scratch memory, touched in this way; a slot has its own access.
fn with_access(operand: Operand, access: Access) -> Operand {
    match operand {
        Operand::Scratch(number, _) => Operand::Scratch(number, access),
        other => other,
    }
}
