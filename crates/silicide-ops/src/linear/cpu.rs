//! `linear` on the CPU. One product is a launch of the product in integers, of dense weights, or of decoded weights.
//!
//! Several products are the launches that would compute each alone, as one. A tile is a tile of one of them, run by the
//! very program that it would have there, so that results have the same bits; a bias is added to what a tile has just written.
//! Where two products are gated, a tile is the same tile of both, and may quantize what it has written.

mod programs;
mod tile;

use super::{Linear, Product as OpProduct, ProductSlots};
use crate::elementwise::fits_cpu;
use crate::matmul::{Problem, dense_launch};
use crate::product::{decoded, integer, needs};
use silicide_core::kernel::{Access, Arg, Cost, Decline, Io, Kernel, Launch, Operand, Plan, Step};
use silicide_gemm::q8::GROUP;
use silicide_hal::{DeviceInfo, Program};
use silicide_quant::{DType, Encoding, RowEncoding};
use smallvec::{SmallVec, smallvec};
use tile::{HEAD, Product};

/// One product, in integers: blocks and affine planes, interleaved or not.
pub(super) struct Integer;

/// One product, of elements in place or interleaved.
pub(super) struct Dense;

/// One product, of weights that are decoded: all but plain elements.
pub(super) struct Decoded;

/// Several launches as one.
pub(super) struct Joined;

/// Kernels of one product.
const SINGLE: [&dyn Kernel<Op = Linear>; 3] = [&Integer, &Dense, &Decoded];

/// Whether `x` is quantized rows.
fn is_quantized(io: &Io<'_>) -> bool {
    io.input(0).dtype == DType::U8
}

/// The encoding and the problem of one product of rows of f32.
fn single_f32(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<(Encoding, Problem), Decline> {
    if io.input(0).dtype == DType::F32 { single(op, io, on) } else { Err(Decline("is for rows of f32")) }
}

/// Declines rows of bf16, and outputs of bf16.
fn check_f32(op: &Linear, io: &Io<'_>) -> Result<(), Decline> {
    let is_wide = io.input(0).dtype != DType::BF16 && !op.bf16;
    if is_wide { Ok(()) } else { Err(Decline("takes and gives no rows of bf16")) }
}

/// The encoding and the problem of one product.
fn single(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<(Encoding, Problem), Decline> {
    fits_cpu(on)?;
    let encoding = op.single().ok_or(Decline("is for one product without a bias"))?;
    check_f32(op, io)?;
    Ok((encoding, op.problem(io, 0).ok_or(Decline("takes extents of at most 32 bits"))?))
}

impl Kernel for Integer {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.integer.cpu"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let (encoding, problem) = single(op, io, on)?;
        if is_quantized(io) {
            needs::check_alignment(&io.input(0))?;
        } else if op.exact {
            return Err(Decline("quantizes activations"));
        }
        integer::check(&problem, encoding).map(|()| Cost::BEST)
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let plan = if is_quantized(io) { integer::plan } else { integer::plan_quantizing };
        single(op, io, on).map_or(Plan::default(), |(encoding, problem)| plan(&problem, encoding, on))
    }
}

impl Kernel for Dense {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.dense.cpu"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let (encoding, _) = single_f32(op, io, on)?;
        match encoding.of() {
            RowEncoding::Element(dtype) if io.input(1).alignment as usize >= dtype.alignment() => {
                Ok(Cost::BEST)
            }
            _ => Err(Decline("is for elements that are aligned")),
        }
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        let Ok((encoding, problem)) = single(op, io, on) else { return Plan::default() };
        let RowEncoding::Element(dtype) = encoding.of() else { return Plan::default() };
        let (program, params, grid) = dense_launch(&problem, dtype, encoding.interleaved_rows());
        Plan::launch(program, &[Arg::slot(0), Arg::slot(1), Arg::slot(2)], &params, grid)
    }
}

impl Kernel for Decoded {
    type Op = Linear;

    fn name(&self) -> &'static str {
        "linear.decoded.cpu"
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        match single_f32(op, io, on)? {
            (Encoding::Element(_), _) => Err(Decline("is for weights that are decoded")),
            _ => Ok(Cost::FALLBACK),
        }
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        single(op, io, on).map_or(Plan::default(), |(encoding, problem)| decoded::plan(&problem, encoding))
    }
}

impl Kernel for Joined {
    type Op = Linear;

    fn name(&self) -> &'static str {
        tile::JOINED.name
    }

    fn fits(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
        let cost = fits_cpu(on)?;
        if op.single().is_some() {
            return Err(Decline("is for several products, a bias or a gate"));
        }
        check_f32(op, io)?;
        join(op, io, on).map(|_| cost)
    }

    fn plan(&self, op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Plan {
        join(op, io, on).unwrap_or_default()
    }
}

/// A product as it would be computed alone.
struct Alone {
    launch: Launch,
    place: ProductSlots,
    /// Planes of the weight.
    planes: usize,
    /// Rows and columns of the output.
    extents: [usize; 2],
}

impl Alone {
    fn of(op: &Linear, io: &Io<'_>, i: usize, on: &DeviceInfo) -> Result<Alone, Decline> {
        let none = Decline("there is no such product");
        let (product, place) = op.calls().nth(i).ok_or(none)?;
        let OpProduct { encoding, .. } = product;
        let ((op, inputs), y) = (op.alone(product, &place, io.inputs), op.product(io, i));
        let outputs = [y];
        let io = Io { inputs: &inputs, outputs: &outputs };
        let costs = SINGLE.iter().filter_map(|kernel| Some((kernel.fits(&op, &io, on).ok()?, kernel)));
        let cheapest = costs.min_by_key(|(cost, _)| *cost);
        let (_, kernel) = cheapest.ok_or(Decline("a product has no kernel"))?;
        let plan = kernel.plan(&op, &io, on);
        let ([Step::Dispatch(launch)], []) = (plan.steps.as_slice(), plan.scratch.as_slice()) else {
            return Err(Decline("a product takes more than one launch"));
        };
        let launch = launch.clone();
        let planes = encoding.planes();
        Ok(Alone { launch, place, planes, extents: [y.shape.rows(), y.shape.last()] })
    }
}

/// The bindings of the launch that is being made.
#[derive(Default)]
struct Bindings(SmallVec<[Arg; 6]>);

impl Bindings {
    /// The number of a binding.
    fn bind(&mut self, arg: Arg) -> u32 {
        let known = self.0.iter().position(|bound| *bound == arg);
        known.unwrap_or_else(|| {
            self.0.push(arg);
            self.0.len() - 1
        }) as u32
    }
}

/// The plan of all products.
fn join(op: &Linear, io: &Io<'_>, on: &DeviceInfo) -> Result<Plan, Decline> {
    let alone: Result<SmallVec<[Alone; 3]>, Decline> =
        (0..op.products.len()).map(|i| Alone::of(op, io, i, on)).collect();
    let alone = alone?;
    let (mut plan, mut bound) = (Plan::default(), Bindings::default());
    let gated = op.gate.map(|_| plan.scratch(io.output(0).bytes()));
    let mut params: SmallVec<[u32; 16]> =
        smallvec![op.products.len() as u32, op.gate.map_or(0, |gate| gate.code() + 1), 0, 0];
    let (mut tiles, mut products): (u32, SmallVec<[Product; 3]>) = (0, smallvec![]);
    for (i, alone) in alone.iter().enumerate() {
        let launch = &alone.launch;
        let y = match gated {
            Some(gate) if i == 0 => Arg::scratch(gate, Access::Write),
            Some(_) => Arg::slot(io.inputs.len() as u8),
            None => Arg::slot((io.inputs.len() + i) as u8),
        };
        let mut bindings: SmallVec<[u32; 6]> = smallvec![];
        for arg in &launch.args {
            let operand = match arg.operand {
                Operand::Slot(0) => Arg::slot(0).operand,
                Operand::Slot(slot) if usize::from(slot) <= alone.planes => {
                    Arg::slot((alone.place.weight.start + usize::from(slot) - 1) as u8).operand
                }
                Operand::Slot(_) => y.operand,
                Operand::Scratch(..) => return Err(Decline("a product takes scratch memory")),
                Operand::Table(_) => return Err(Decline("a product takes a table")),
            };
            bindings.push(bound.bind(Arg { operand, ..*arg }));
        }
        let bias = alone.place.bias.map_or(0, |bias| bound.bind(Arg::slot(bias as u8)) + 1);
        let mut product =
            Product::new(launch, alone.extents, tiles).ok_or(Decline("a product has another program"))?;
        (product.y, product.bias) = (bound.bind(y) as usize, bias as usize);
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
    if op.quantized {
        let columns = products.first().map_or(0, |product| product.tile_columns);
        let (q, k) = (io.output(1), io.output(0).shape.last());
        needs::check_alignment(&q)?;
        if !columns.is_multiple_of(GROUP) || !k.is_multiple_of(GROUP) {
            return Err(Decline("quantizes whole groups of 32"));
        }
        let words = [bound.bind(Arg::slot(io.inputs.len() as u8 + 1)) + 1, (k / GROUP) as u32];
        params.iter_mut().skip(HEAD - words.len()).zip(words).for_each(|(word, value)| *word = value);
    }
    let (limits, Bindings(args)) = (&on.limits, bound);
    if args.len() > limits.max_bindings as usize || params.len() * 4 > limits.max_param_bytes {
        return Err(Decline("takes too many bindings"));
    }
    plan.push(Program::Native(&tile::JOINED), &args, &params, [tiles, 1, 1]);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glu::Activation;
    use silicide_core::kernel::{Op, TensorInfo};
    use silicide_gemm::q8::quantized_row_bytes;
    use silicide_hal::Backend;
    use silicide_hal::cpu::Isa;
    use silicide_quant::{Format, Shape};

    fn device() -> DeviceInfo {
        let mut on = DeviceInfo::new(Backend::Cpu, "cpu", "test");
        on.isa = Some(Isa::Portable);
        (on.limits.max_param_bytes, on.limits.max_bindings) = (4096, 16);
        on
    }

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    fn linear(weights: &[DType], gate: Option<Activation>) -> Linear {
        let product = |dtype: &DType| OpProduct { encoding: Encoding::from(*dtype), bias: false };
        Linear { products: weights.iter().map(product).collect(), gate, ..Linear::default() }
    }

    #[test]
    fn quantized_rows_serve_all_formats_in_one_launch() {
        let weights = [DType::Block(Format::Q4_0), DType::Block(Format::Q6K)];
        let mut inputs = vec![info(DType::U8, &[3, quantized_row_bytes(256 / GROUP)])];
        inputs.extend(weights.map(|dtype| info(dtype, &[40, 256])));
        let op = linear(&weights, None);
        let outputs = Op::infer(&op, &inputs).unwrap();
        let io = Io { inputs: &inputs, outputs: &outputs };
        assert!(Joined.fits(&op, &io, &device()).is_ok());
        let plan = Joined.plan(&op, &io, &device());
        assert_eq!((plan.steps.len(), plan.scratch.len()), (1, 0));
    }

    #[test]
    fn gates_of_another_format_are_declined() {
        let a = info(DType::U8, &[1, quantized_row_bytes(256 / GROUP)]);
        for (gate, up, fits) in [(Format::Q4_0, Format::Q4_0, true), (Format::Q2K, Format::Q8_0, false)] {
            let weights = [gate, up].map(DType::Block);
            let op = linear(&weights, Some(Activation::Silu));
            let inputs = [a, info(weights[0], &[4096, 256]), info(weights[1], &[4096, 256])];
            let outputs = Op::infer(&op, &inputs).unwrap();
            let io = Io { inputs: &inputs, outputs: &outputs };
            assert_eq!(Joined.fits(&op, &io, &device()).is_ok(), fits, "{io}");
        }
    }
}
