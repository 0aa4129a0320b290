//! Projections: up to three products of one input, `a · bᵀ` each, with a bias or without; or two of them with a gated linear
//! unit over both, `activation(a · gateᵀ) * (a · upᵀ)`.
//!
//! It computes what [`matmul`](crate::matmul), [`interleaved_matmul`](crate::interleaved_matmul) or
//! [`mlx_matmul`](crate::mlx_matmul), an [addition](crate::binary) and [`glu`](crate::glu()) compute, and is what a graph puts in
//! their place: queries, keys and values, or gate and up, in one command.

pub mod cases;
mod cpu;
mod gpu;

use crate::glu::{Activation, Glu};
use crate::interleaved_matmul::InterleavedMatmul;
use crate::matmul::Matmul;
use crate::mlx;
use crate::mlx_matmul::MlxMatmul;
use silicide_core::kernel::{DynOp, Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::LazyLock;

/// The most products.
pub const MOST: usize = 3;

/// How the input is multiplied: the op that would do it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// With a weight of single elements or blocks, `[n, k]`.
    Plain(Matmul),
    /// With an interleaved weight.
    Interleaved(InterleavedMatmul),
    /// With a weight in planes.
    Planes(MlxMatmul),
}

impl Factor {
    fn op(&self) -> &dyn DynOp {
        match self {
            Factor::Plain(op) => op,
            Factor::Interleaved(op) => op,
            Factor::Planes(op) => op,
        }
    }

    /// The number of arguments that are the weight.
    pub(crate) fn weights(&self) -> usize {
        match self {
            Factor::Planes(op) => mlx::planes(op.format),
            _ => 1,
        }
    }
}

/// One product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// How.
    pub factor: Factor,
    /// Whether a vector is added to every row.
    pub bias: bool,
}

/// The op. Inputs: `a` of f32, `[..., m, k]`; the weights of all projections, one after the other; the biases of f32, `[n]`, of
/// those that have one. Outputs: `y` of f32, `[..., m, n]`, for each projection, or one for both where they are gated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// One to three.
    pub projections: SmallVec<[Projection; MOST]>,
    /// What is done to the first of two before it is multiplied with the second.
    pub gate: Option<Activation>,
}

/// Where the arguments of a projection are among the inputs.
#[derive(Clone, Debug)]
struct Place {
    weights: Range<usize>,
    bias: Option<usize>,
}

/// Slots by the numbers of weights, biases and outputs.
static SLOTS: LazyLock<Vec<Vec<Slot>>> = LazyLock::new(|| {
    let slots = |weights: usize, biases: usize, outputs: usize| {
        let weights = std::iter::repeat_n(Slot::input("b"), weights);
        let biases = std::iter::repeat_n(Slot::input("bias"), biases);
        let outputs = std::iter::repeat_n(Slot::output("y"), outputs);
        std::iter::once(Slot::input("a")).chain(weights).chain(biases).chain(outputs).collect()
    };
    let numbers = |index: usize| (index / COUNTS / COUNTS, index / COUNTS % COUNTS, index % COUNTS);
    (0..(3 * MOST + 1) * COUNTS * COUNTS).map(numbers).map(|(w, b, y)| slots(w, b, y)).collect()
});

/// None to the most.
const COUNTS: usize = MOST + 1;

impl Project {
    /// The number of inputs that are weights, and that are biases.
    fn counts(&self) -> (usize, usize) {
        let weights = self.projections.iter().map(|projection| projection.factor.weights()).sum();
        (weights, self.projections.iter().filter(|projection| projection.bias).count())
    }

    /// The number of outputs.
    fn outputs(&self) -> usize {
        if self.gate.is_some() { 1 } else { self.projections.len() }
    }

    fn places(&self) -> SmallVec<[Place; MOST]> {
        let (mut weight, mut bias) = (1, 1 + self.counts().0);
        let mut next = |projection: &Projection| {
            let weights = weight..weight + projection.factor.weights();
            weight = weights.end;
            let place = Place { weights, bias: projection.bias.then_some(bias) };
            bias += usize::from(projection.bias);
            place
        };
        self.projections.iter().map(&mut next).collect()
    }

    /// Each projection, with what it would be called with alone.
    fn calls<'a, T: Clone>(
        &'a self,
        inputs: &'a [T],
    ) -> impl Iterator<Item = (&'a Projection, Place, Vec<T>)> {
        self.projections.iter().zip(self.places()).map(move |(projection, place)| {
            let weights = inputs.get(place.weights.clone()).unwrap_or_default();
            let inputs = inputs.iter().take(1).chain(weights).cloned().collect();
            (projection, place, inputs)
        })
    }

    /// What projection `i` gives.
    fn product(&self, io: &Io<'_>, i: usize) -> TensorInfo {
        io.output(if self.gate.is_some() { 0 } else { i })
    }
}

fn wrong_shape(slot: &'static str, expected: String, given: &TensorInfo) -> Error {
    Error::Shape { op: "project", slot, expected, got: given.shape }
}

impl Op for Project {
    fn name(&self) -> &'static str {
        "project"
    }

    fn slots(&self) -> &'static [Slot] {
        let (weights, biases) = self.counts();
        SLOTS.get((weights * COUNTS + biases) * COUNTS + self.outputs()).map_or(&[], Vec::as_slice)
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, count) = ("project", self.projections.len());
        if count == 0 || count > MOST || (self.gate.is_some() && count != 2) {
            let what =
                format!("{count} projections, of which there are 1 to {MOST}, and 2 where they are gated");
            return Err(Error::BadParameter { op, what });
        }
        let (weights, biases) = self.counts();
        let expected = 1 + weights + biases;
        if given.len() != expected {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        }
        let mut outputs = Outputs::new();
        for (projection, place, inputs) in self.calls(given) {
            if let (Factor::Plain(_), Some(b)) =
                (projection.factor, inputs.get(1).filter(|b| b.shape.rank() != 2))
            {
                return Err(wrong_shape("b", "[n, k]".to_owned(), b));
            }
            let made = projection.factor.op().infer(&inputs)?;
            let n = made.first().map_or(0, |y| y.shape.last());
            if let Some(bias) = place.bias.and_then(|bias| given.get(bias)) {
                if bias.dtype != DType::F32 {
                    let (slot, expected, got) = ("bias", "f32".to_owned(), bias.dtype);
                    return Err(Error::DTypeMismatch { op, slot, expected, got });
                }
                if bias.shape.axes() != [n] {
                    return Err(wrong_shape("bias", format!("[{n}]"), bias));
                }
            }
            outputs.extend(made);
        }
        match (self.gate, outputs.as_slice()) {
            (None, _) => Ok(outputs),
            (Some(activation), both) => Op::infer(&Glu { activation }, both),
        }
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let mut made = Vec::new();
        for (i, (projection, place, call)) in self.calls(inputs).enumerate() {
            let y = outputs.get(if self.gate.is_some() { 0 } else { i }).cloned();
            let mut y: Vec<Host> = y.into_iter().collect();
            projection.factor.op().reference(&call, &mut y);
            if let (Some(bias), [y, ..]) = (place.bias.and_then(|bias| inputs.get(bias)), y.as_mut_slice()) {
                y.values.iter_mut().zip(bias.values.iter().cycle()).for_each(|(y, bias)| *y += bias);
            }
            made.extend(y);
        }
        match self.gate {
            Some(activation) => Op::reference(&Glu { activation }, &made, outputs),
            None => outputs.iter_mut().zip(made).for_each(|(output, made)| *output = made),
        }
    }

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        let mut worst = Tolerance::rounding(output.dtype);
        for (i, (projection, _, inputs)) in self.calls(io.inputs).enumerate() {
            let outputs = [self.product(io, i)];
            let alone = projection.factor.op().tolerance(&Io { inputs: &inputs, outputs: &outputs }, output);
            worst = Tolerance { nmse: worst.nmse.max(alone.nmse), max: worst.max.max(alone.max) };
        }
        match self.gate {
            None => worst,
            // Errors of both are multiplied with the other, which is rarely large where the first is.
            Some(_) => Tolerance { nmse: 4.0 * worst.nmse, max: 6.0 * worst.max },
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let k = io.input(0).shape.last() as u64;
        let products = (0..self.projections.len()).map(|i| self.product(io, i).elements() as u64);
        let flops = products.fold(0u64, |all, y| all.saturating_add(y.saturating_mul(2).saturating_mul(k)));
        Work::streaming(io, flops)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Joined, &gpu::Few { subgroups: true }, &gpu::Few { subgroups: false }, &gpu::Tiled]
    }
}

/// Records projections of the first input; see [`Project`] for the others.
pub fn project<R: Recorder>(
    recorder: &mut R,
    op: Project,
    inputs: &[&R::Value],
) -> Result<SmallVec<[R::Value; 2]>> {
    recorder.run(op, inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;
    use smallvec::smallvec;

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    fn op(count: usize, bias: bool, gate: Option<Activation>) -> Project {
        Project {
            projections: smallvec![Projection { factor: Factor::Plain(Matmul::default()), bias }; count],
            gate,
        }
    }

    #[test]
    fn refusals_name_the_argument() {
        let (a, b, bias) = (info(DType::F32, &[2, 64]), info(DType::F16, &[9, 64]), info(DType::F32, &[9]));
        let slot = |op: Project, inputs: &[TensorInfo]| match Op::infer(&op, inputs) {
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
            Err(Error::ArgumentCount { what, .. }) => what,
            Err(Error::BadParameter { .. }) => "projections",
            other => panic!("{other:?}"),
        };
        assert_eq!(slot(op(1, true, None), &[a, b]), "inputs");
        assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F32, &[8])]), "bias");
        assert_eq!(slot(op(1, true, None), &[a, b, info(DType::F16, &[9])]), "bias");
        assert_eq!(slot(op(1, false, None), &[a, info(DType::F16, &[1, 9, 64])]), "b");
        assert_eq!(slot(op(2, false, None), &[a, b, info(DType::F16, &[9, 32])]), "a");
        assert_eq!(slot(op(2, false, Some(Activation::Silu)), &[a, b, info(DType::F16, &[8, 64])]), "up");
        assert_eq!(slot(op(3, false, Some(Activation::Silu)), &[a, b, b, b]), "projections");
        assert_eq!(slot(op(4, false, None), &[a, b, b, b, b]), "projections");
        let outputs = Op::infer(&op(2, true, None), &[a, b, b, bias, bias]).unwrap();
        assert_eq!(outputs.to_vec(), [info(DType::F32, &[2, 9]); 2]);
    }

    #[test]
    fn slots_are_as_many_as_arguments() {
        for (count, bias) in [(1, false), (3, true), (2, true)] {
            let slots = Op::slots(&op(count, bias, None));
            assert_eq!(slots.len(), 1 + count * (2 + usize::from(bias)));
            assert_eq!(slots.iter().filter(|slot| slot.access.writes()).count(), count);
        }
        assert_eq!(Op::slots(&op(2, false, Some(Activation::Silu))).len(), 4);
    }
}
