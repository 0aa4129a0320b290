//! `linear` as the plans of other ops, for calls that no other kernel takes. [`Steps`] has each product, bias and gate in launches of its own:
//! weights larger than a binding, more planes than a device binds, gates whose weights are cut differently. [`Bf16Linear`] widens rows of bf16
//! first, and rounds outputs last.

use super::Linear;
use crate::binary::Binary;
use crate::glu::Glu;
use crate::product::compose::{self, Bound, append, around_wide};
use crate::product::integer;
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Plan};
use silicide_hal::DeviceInfo;
use silicide_quant::DType;
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

/// Rows or outputs of bf16, on every device.
pub(super) struct Bf16Linear;

impl Kernel for Bf16Linear {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.bf16"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        bf16(op, io, on).map(|_| Cost::FALLBACK)
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        bf16(op, io, on).unwrap_or_default()
    }
}

fn bf16(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    let x = io.input(0);
    if x.dtype != DType::BF16 && !op.bf16 {
        return Err(Decline("is for rows of bf16"));
    }
    let takes = |(i, product): (usize, &super::Product)| {
        integer::takes(product.encoding, [op.weight_rows(io, i), x.shape.last()])
    };
    let integer = !on.is_gpu() && !op.exact && op.products.iter().enumerate().all(takes);
    around_wide(&Linear { bf16: false, ..op.clone() }, io, integer, on)
}

fn steps(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    if op.single().is_some() {
        return Err(Decline("one product has kernels of its own"));
    }
    if op.quantized || op.bf16 || io.input(0).dtype == DType::BF16 {
        return Err(Decline("takes no rows of bf16, and gives rows of f32"));
    }
    let mut plan = Plan::default();
    let slots = compose::slots(io);
    let mut made: SmallVec<[Bound; 3]> = SmallVec::new();
    for (i, (product, place)) in op.calls().enumerate() {
        let y = op.product(io, i);
        let bias = place.bias.and_then(|bias| slots.get(bias)).copied();
        let (alone, inputs) = op.alone(product, &place, &slots);
        let own = Arg::slot((io.inputs.len() + i) as u8);
        let scratch = |plan: &mut Plan| Arg::scratch(plan.scratch(y.bytes()), Access::Write);
        let sums = if bias.is_some() || op.gate.is_some() { scratch(&mut plan) } else { own };
        append(&mut plan, &alone, &inputs, &[(y, sums)], on)?;
        let mut last = sums;
        if let Some(bias) = bias {
            last = if op.gate.is_some() { scratch(&mut plan) } else { own };
            append(&mut plan, &Binary::Add, &[(y, sums), bias], &[(y, last)], on)?;
        }
        made.push((y, last));
    }
    if let Some(activation) = op.gate {
        let y = (io.output(0), Arg::slot(io.inputs.len() as u8));
        append(&mut plan, &Glu::new(activation), &made, &[y], on)?;
    }
    Ok(plan)
}
