//! `project` on the CPU: the launches that would compute each product alone, as one. A tile is a tile of one of them, run by the
//! very program that it would have there, so that results have the same bits; a bias is added to what a tile has just written.
//! Where two products are gated, a tile is the same tile of both.
//!
//! What they derive from the input, which is the same for all formats, is derived once.

mod programs;
mod tile;

use super::{Place, Project, Projection};
use crate::elementwise::fits_cpu;
use crate::product::activations::rounds;
use silicide_core::kernel::{
    Access, Arg, Cost, Decline, Derivation, Io, Kernel, Launch, Operand, Plan, Step, TensorInfo,
};
use silicide_hal::{DeviceInfo, Program};
use smallvec::{SmallVec, smallvec};
use tile::{HEAD, Product};

/// Elements that are rounded under one scale.
const RUN: usize = 32;

/// Several launches as one.
pub(super) struct Joined;

impl Kernel for Joined {
    type Op = Project;

    fn name(&self) -> &'static str {
        tile::JOINED.name
    }

    fn fits(&self, op: &Project, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let cost = fits_cpu(on)?;
        join(op, io, on).map(|_| cost)
    }

    fn plan(&self, op: &Project, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        join(op, io, on).unwrap_or_default()
    }

    /// Tiles of whole runs round what they have made.
    fn plan_with(&self, op: &Project, io: &Io<'_>, on: &DeviceInfo, next: &Derivation<'_>) -> Option<Launch> {
        let [rows, runs] = rounds(next.launch)?.map(|extent| extent as usize);
        let y = io.output(0).shape;
        if op.gate.is_none() || y.rows() != rows || y.last() != runs * RUN {
            return None;
        }
        let plan = join(op, io, on).ok()?;
        let Some(Step::Dispatch(launch)) = plan.steps.last() else { return None };
        let columns = Product::read(&launch.params, 0)?.tile_columns;
        if !columns.is_multiple_of(RUN) || launch.args.len() >= on.limits.max_bindings as usize {
            return None;
        }
        let mut launch = launch.clone();
        let words = [launch.args.len() as u32 + 1, runs as u32];
        launch.params.iter_mut().skip(HEAD - words.len()).zip(words).for_each(|(word, value)| *word = value);
        launch.args.push(Arg::scratch(next.scratch, Access::Write));
        Some(launch)
    }
}

/// A product as it would be computed alone.
struct Alone {
    plan: Plan,
    place: Place,
    /// Rows and columns of the output.
    extents: [usize; 2],
}

impl Alone {
    fn of(
        call: (&Projection, Place, Vec<TensorInfo>),
        y: TensorInfo,
        on: &DeviceInfo,
    ) -> Result<Alone, Decline> {
        let (Projection { factor, .. }, place, inputs) = call;
        let (op, outputs) = (factor.op(), [y]);
        let io = Io { inputs: &inputs, outputs: &outputs };
        let fitting = |i: usize| op.kernel_fits(i, &io, on).ok().map(|cost| (cost, i));
        let (_, kernel) =
            (0..op.kernel_count()).filter_map(fitting).min().ok_or(Decline("a product has no kernel"))?;
        let plan = op.kernel_plan(kernel, &io, on);
        // Nothing but what is derived from the input comes before the launch.
        if plan.steps.len() != plan.derived.len() + 1 || plan.scratch.len() != plan.derived.len() {
            return Err(Decline("a product takes more than one launch"));
        }
        Ok(Alone { plan, place, extents: [y.shape.rows(), y.shape.last()] })
    }

    /// The launch that multiplies.
    fn launch(&self) -> Result<&Launch, Decline> {
        match self.plan.steps.last() {
            Some(Step::Dispatch(launch)) => Ok(launch),
            _ => Err(Decline("a product is no launch")),
        }
    }
}

/// The plan that is being made.
struct Joining {
    plan: Plan,
    /// Launches that derive, and the scratch memory of each.
    derived: SmallVec<[(Launch, u8); 2]>,
    /// Bindings of the launch.
    args: SmallVec<[Arg; 6]>,
}

impl Joining {
    /// The number of a binding.
    fn bind(&mut self, arg: Arg) -> u32 {
        let known = self.args.iter().position(|bound| *bound == arg);
        known.unwrap_or_else(|| {
            self.args.push(arg);
            self.args.len() - 1
        }) as u32
    }

    /// The scratch memory that a launch of a product's own plan derives, derived here once.
    fn derive(&mut self, alone: &Alone, number: usize) -> Option<u8> {
        let Some(Step::Dispatch(launch)) = alone.plan.steps.get(number) else { return None };
        let mut launch = launch.clone();
        // The memory itself is bound last, and added again.
        launch.args.pop();
        if let Some((_, scratch)) = self.derived.iter().find(|(known, _)| *known == launch) {
            return Some(*scratch);
        }
        let bytes = alone.plan.scratch.get(number)?;
        let scratch = self.plan.derive(*bytes, launch.clone());
        self.derived.push((launch, scratch));
        Some(scratch)
    }
}

/// The plan of all products.
fn join(op: &Project, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    let calls = op.calls(io.inputs).enumerate();
    let alone: Result<SmallVec<[Alone; 3]>, Decline> =
        calls.map(|(i, call)| Alone::of(call, op.product(io, i), on)).collect();
    let alone = alone?;
    let mut joining = Joining { plan: Plan::default(), derived: smallvec![], args: smallvec![] };
    let mut scratch: SmallVec<[SmallVec<[u8; 1]>; 3]> = smallvec![];
    for alone in &alone {
        let numbers = 0..alone.plan.derived.len();
        scratch.push(numbers.filter_map(|number| joining.derive(alone, number)).collect());
    }
    let gated = op.gate.map(|_| joining.plan.scratch(io.output(0).bytes()));
    let mut params: SmallVec<[u32; 16]> =
        smallvec![op.projections.len() as u32, op.gate.map_or(0, |gate| gate.code() + 1), 0, 0];
    let (mut tiles, mut products): (u32, SmallVec<[Product; 3]>) = (0, smallvec![]);
    for (i, (alone, scratch)) in alone.iter().zip(&scratch).enumerate() {
        let launch = alone.launch()?;
        let weights = op.projections.get(i).map_or(0, |projection| projection.factor.weights());
        let y = match gated {
            Some(gate) if i == 0 => Arg::scratch(gate, Access::Write),
            Some(_) => Arg::slot(io.inputs.len() as u8),
            None => Arg::slot((io.inputs.len() + i) as u8),
        };
        let mut bindings: SmallVec<[u32; 6]> = smallvec![];
        for arg in &launch.args {
            let operand = match arg.operand {
                Operand::Slot(0) => Arg::slot(0).operand,
                Operand::Slot(slot) if usize::from(slot) <= weights => {
                    Arg::slot((alone.place.weights.start + usize::from(slot) - 1) as u8).operand
                }
                Operand::Slot(_) => y.operand,
                Operand::Scratch(number, access) => {
                    let number =
                        scratch.get(usize::from(number)).ok_or(Decline("a product takes scratch memory"))?;
                    Operand::Scratch(*number, access)
                }
                Operand::Table(_) => return Err(Decline("a product takes a table")),
            };
            bindings.push(joining.bind(Arg { operand, ..*arg }));
        }
        let bias = alone.place.bias.map_or(0, |bias| joining.bind(Arg::slot(bias as u8)) + 1);
        let mut product =
            Product::new(launch, alone.extents, tiles).ok_or(Decline("a product has another program"))?;
        (product.y, product.bias) = (joining.bind(y) as usize, bias as usize);
        if op.gate.is_none() {
            tiles = tiles.checked_add(product.tiles()).ok_or(Decline("takes fewer tiles"))?;
        }
        product.write(&mut params, &bindings, &launch.params);
        products.push(product);
    }
    if let ([gate, up, ..], Some(_)) = (products.as_slice(), op.gate) {
        if !gate.is_cut_like(up) {
            return Err(Decline("gate and up are cut differently"));
        }
        tiles = gate.tiles();
    }
    let limits = &on.limits;
    if joining.args.len() > limits.max_bindings as usize || params.len() * 4 > limits.max_param_bytes {
        return Err(Decline("takes too many bindings"));
    }
    let Joining { mut plan, args, .. } = joining;
    plan.push(Program::Native(&tile::JOINED), &args, &params, [tiles, 1, 1]);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glu::Activation;
    use crate::matmul::Matmul;
    use crate::project::Factor;
    use silicide_core::kernel::Op;
    use silicide_hal::Backend;
    use silicide_hal::cpu::Isa;
    use silicide_quant::{DType, Format, Shape};

    fn device() -> DeviceInfo {
        let mut on = DeviceInfo::new(Backend::Cpu, "cpu", "test");
        on.isa = Some(Isa::Portable);
        (on.limits.max_param_bytes, on.limits.max_bindings) = (4096, 16);
        on
    }

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    fn project(count: usize, gate: Option<Activation>) -> Project {
        let projection = Projection { factor: Factor::Plain(Matmul::default()), bias: false };
        Project { projections: smallvec![projection; count], gate }
    }

    #[test]
    fn activations_are_rounded_once_for_all_formats() {
        let weights = [Format::Q4_0, Format::Q6K].map(DType::Block).into_iter().chain([DType::F16]);
        let mut inputs = vec![info(DType::F32, &[3, 256])];
        inputs.extend(weights.map(|dtype| info(dtype, &[40, 256])));
        let op = project(3, None);
        let outputs = Op::infer(&op, &inputs).unwrap();
        let plan = Joined.plan(&op, &Io { inputs: &inputs, outputs: &outputs }, &device());
        assert_eq!((plan.steps.len(), plan.derived.len(), plan.scratch.len()), (2, 1, 1));
    }

    #[test]
    fn gates_of_another_format_are_declined() {
        let a = info(DType::F32, &[1, 256]);
        let op = project(2, Some(Activation::Silu));
        for (gate, up, fits) in [(Format::Q4_0, Format::Q4_0, true), (Format::Q2K, Format::Q8_0, false)] {
            let inputs = [a, info(DType::Block(gate), &[4096, 256]), info(DType::Block(up), &[4096, 256])];
            let outputs = Op::infer(&op, &inputs).unwrap();
            let io = Io { inputs: &inputs, outputs: &outputs };
            assert_eq!(Joined.fits(&op, &io, &device()).is_ok(), fits, "{io}");
        }
    }
}
