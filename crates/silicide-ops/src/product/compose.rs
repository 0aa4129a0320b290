//! Plans that are made of the plans of other ops: each part is the cheapest kernel of an op, over memory of the whole plan.

use crate::cast::Cast;
use crate::quantize_q8::QuantizeQ8;
use silicide_core::kernel::{Access, Arg, Decline, DynOp, Io, Operand, Plan, Step, TensorInfo};
use silicide_hal::DeviceInfo;
use silicide_quant::DType;
use smallvec::SmallVec;

/// A tensor and the memory that it is in.
pub(crate) type Bound = (TensorInfo, Arg);

/// Returns the inputs of a call with their slots.
pub(crate) fn slots(io: &Io<'_>) -> SmallVec<[Bound; 8]> {
    io.inputs.iter().zip(0..).map(|(info, slot)| (*info, Arg::slot(slot))).collect()
}

/// Appends the plan of the cheapest kernel of `op`, over memory of this plan.
pub(crate) fn append(
    plan: &mut Plan,
    op: &dyn DynOp,
    inputs: &[Bound],
    outputs: &[Bound],
    on: &DeviceInfo,
) -> Result<(), Decline> {
    let infos = |bound: &[Bound]| bound.iter().map(|(info, _)| *info).collect::<SmallVec<[TensorInfo; 8]>>();
    let (given, made) = (infos(inputs), infos(outputs));
    let io = Io { inputs: &given, outputs: &made };
    let costs = (0..op.kernel_count()).filter_map(|i| Some((op.kernel_fits(i, &io, on).ok()?, i)));
    let (_, kernel) = costs.min().ok_or(Decline("a part has no kernel"))?;
    let part = op.kernel_plan(kernel, &io, on);
    let first = u8::try_from(plan.scratch.len()).map_err(|_| Decline("takes too much scratch memory"))?;
    let bind = |arg: &mut Arg| {
        arg.operand = match arg.operand {
            Operand::Slot(slot) => {
                let slot = usize::from(slot);
                match (inputs.get(slot), outputs.get(slot.saturating_sub(inputs.len()))) {
                    (Some((_, input)), _) => with_access(input.operand, Access::Read),
                    (None, Some((_, output))) => with_access(output.operand, Access::Write),
                    // No kernel binds a slot that its op does not have; lowering refuses one that does.
                    (None, None) => Operand::Slot(u8::MAX),
                }
            }
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

/// Returns new scratch memory for a tensor.
pub(crate) fn scratch(plan: &mut Plan, info: TensorInfo) -> Bound {
    (info, Arg::scratch(plan.scratch(info.bytes()), Access::Write))
}

/// The plan of a product that takes rows of bf16 or gives them, around `wide`, which takes f32 or quantized rows and gives f32.
///
/// Rows of bf16 are read once: they become quantized rows if `integer`, and otherwise rows of f32, which are the same numbers. So results are
/// those of the numbers in f32. Outputs of bf16 are the sums of f32, rounded once to the nearest, ties to even.
pub(crate) fn around_wide(
    wide: &dyn DynOp,
    io: &Io<'_>,
    integer: bool,
    on: &DeviceInfo,
) -> Result<Plan, Decline> {
    let mut plan = Plan::default();
    let mut inputs = slots(io);
    if let Some(x) = inputs.first_mut().filter(|(x, _)| x.dtype == DType::BF16) {
        let step: &dyn DynOp = if integer { &QuantizeQ8 } else { &Cast { to: DType::F32 } };
        let rows = step.infer(&[x.0]).ok().and_then(|rows| rows.first().copied());
        let rows = scratch(&mut plan, rows.ok_or(Decline("takes whole rows"))?);
        append(&mut plan, step, &[*x], &[rows], on)?;
        *x = rows;
    }
    let (mut outputs, mut rounded) = (SmallVec::<[Bound; 3]>::new(), SmallVec::<[(Bound, Bound); 3]>::new());
    for (y, slot) in io.outputs.iter().zip(io.inputs.len()..) {
        let own = (*y, Arg::slot(slot as u8));
        if y.dtype == DType::BF16 {
            let sums = scratch(&mut plan, TensorInfo::new(DType::F32, y.shape));
            rounded.push((sums, own));
            outputs.push(sums);
        } else {
            outputs.push(own);
        }
    }
    append(&mut plan, wide, &inputs, &outputs, on)?;
    for (sums, own) in rounded {
        append(&mut plan, &Cast { to: DType::BF16 }, &[sums], &[own], on)?;
    }
    Ok(plan)
}
