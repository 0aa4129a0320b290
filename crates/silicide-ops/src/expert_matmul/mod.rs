//! Matrix multiplication by expert: `y[i] = weights[ids[i]] · x[i]`, what a mixture of experts is made of.
//!
//! Every row of activations goes to as many experts as the last axis of `ids` has; a pair of a row and one of its experts is one
//! product of `[k]` activations and an expert's `[n, k]` weights. All experts of a row may share its activations, or have
//! their own. Kernels group pairs by expert, so that the weights of an expert are read once, however many rows go to it.
//!
//! An id that no expert has, negative ones included, never reads outside the weights: the outputs of its pair are NaN, which
//! reach the logits of a model and are refused there. Sums are as those of `matmul`.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::{inputs, is_float};
use crate::interleave::{interleaved_values, interleaves};
use crate::product::integer::may_round;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Format, Shape};
use smallvec::SmallVec;

/// The op. Inputs: `x` of f32, `[..., k]` or `[..., used, k]`; `weights` of f32, f16, bf16 or a block format, `[experts, n, k]`; `ids`
/// of u32 or i32, `[..., used]`. Output: `y` of f32, `[..., used, n]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExpertMatmul {
    /// Multiply activations as they are. Otherwise a kernel may round them first to what its arithmetic takes, within
    /// the tolerance stated here.
    pub exact: bool,
    /// The format of weights that were [interleaved](crate::interleave) for the CPU, which are `[experts, n, bytes]` of u8.
    pub interleaved: Option<Format>,
}

/// Records the products of activations and the experts that `ids` names: `[..., k]` or `[..., used, k]` by `[experts, n, k]` gives
/// `[..., used, n]`.
pub fn expert_matmul<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weights: &R::Value,
    ids: &R::Value,
) -> Result<R::Value> {
    recorder.run_one(ExpertMatmul::default(), &[x, weights, ids])
}

/// [`expert_matmul`] with weights that were interleaved, `[experts, n, bytes]`.
pub fn interleaved_expert_matmul<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    (weights, format): (&R::Value, Format),
    ids: &R::Value,
) -> Result<R::Value> {
    recorder.run_one(ExpertMatmul { exact: false, interleaved: Some(format) }, &[x, weights, ids])
}

/// What kernels see. Every extent fits in 32 bits, and none is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Products: rows of ids times the experts that each goes to.
    pub(crate) pairs: usize,
    /// Experts that a row goes to.
    pub(crate) used: usize,
    /// Pairs that share a row of activations, one after the other: all of a row's, or one.
    pub(crate) sharing: usize,
    pub(crate) experts: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
}

impl Problem {
    /// The problem of a checked call, unless it is out of range.
    pub(crate) fn of(io: &Io<'_>) -> Option<Problem> {
        let (x, ids) = (io.input(0).shape, io.input(2).shape);
        let &[experts, n, _] = io.input(1).shape.axes() else { return None };
        let k = x.last();
        let (pairs, used) = (ids.elements(), ids.last());
        let sharing = if x.rank() == ids.rank() { used } else { 1 };
        let fit = |extent: usize| extent > 0 && u32::try_from(extent).is_ok();
        let fits = [pairs, n, k].into_iter().all(fit) && experts < i32::MAX as usize;
        fits.then_some(Problem { pairs, used, sharing, experts, n, k })
    }

    /// Rows of activations.
    pub(crate) fn rows(&self) -> usize {
        self.pairs / self.sharing
    }
}

impl Op for ExpertMatmul {
    fn name(&self) -> &'static str {
        "expert_matmul"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::input("weights"), Slot::input("ids"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "expert_matmul";
        let [x, weights, ids] = inputs(op, self.slots(), given)?;
        let mismatch = |slot, expected: &str, got| {
            Err(Error::DTypeMismatch { op, slot, expected: expected.to_owned(), got })
        };
        if x.dtype != DType::F32 {
            return mismatch("x", "f32", x.dtype);
        }
        match self.interleaved {
            None if !is_float(weights.dtype) && !weights.dtype.is_block() => {
                return mismatch("weights", "f32, f16, bf16 or a block format", weights.dtype);
            }
            Some(_) if weights.dtype != DType::U8 => {
                return mismatch("weights", "u8: interleaved blocks", weights.dtype);
            }
            _ => {}
        }
        if !matches!(ids.dtype, DType::U32 | DType::I32) {
            return mismatch("ids", "u32 or i32", ids.dtype);
        }
        let wrong =
            |expected: String| Err(Error::Shape { op, slot: "weights", expected, got: weights.shape });
        let &[_, n, last] = weights.shape.axes() else { return wrong("[experts, n, k]".to_owned()) };
        let k = match self.interleaved {
            Some(format) => last / format.block_bytes() * format.block_len(),
            None => last,
        };
        let block = weights.dtype.block_len();
        if !k.is_multiple_of(block) {
            return wrong(format!("rows of whole blocks of {block}"));
        }
        if let Some(format) = self.interleaved
            && (!last.is_multiple_of(format.block_bytes()) || !interleaves(format, n, k))
        {
            return wrong(format!("[experts, n, bytes of a column] of interleaved {format}"));
        }
        let Some((_, rows)) = ids.shape.axes().split_last() else {
            return Err(Error::Shape { op, slot: "ids", expected: "[..., used]".to_owned(), got: ids.shape });
        };
        let with_k = |axes: &[usize]| axes.iter().copied().chain([k]).collect::<SmallVec<[usize; 8]>>();
        let (shared, own) = (with_k(rows), with_k(ids.shape.axes()));
        if x.shape.axes() != shared.as_slice() && x.shape.axes() != own.as_slice() {
            let expected =
                format!("{shared:?} or {own:?} for ids {} and weights {}", ids.shape, weights.shape);
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        }
        let axes: SmallVec<[usize; 8]> = ids.shape.axes().iter().copied().chain([n]).collect();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, weights, ids], [y]) = (inputs, outputs) else { return };
        let (k, n) = (x.shape.last().max(1), y.shape.last().max(1));
        let weights = match self.interleaved {
            Some(format) => &interleaved_values(format, weights),
            None => &weights.values,
        };
        let sharing = ids.values.len() / (x.values.len() / k).max(1);
        for (pair, (id, y)) in ids.values.iter().zip(y.values.chunks_exact_mut(n)).enumerate() {
            let start = (*id >= 0.0).then_some(*id as usize * n * k);
            let expert = start.and_then(|start| weights.get(start..start + n * k));
            let (Some(expert), Some(x)) = (expert, x.values.chunks_exact(k).nth(pair / sharing.max(1)))
            else {
                y.fill(f64::NAN);
                continue;
            };
            for (y, weights) in y.iter_mut().zip(expert.chunks_exact(k)) {
                *y = x.iter().zip(weights).map(|(x, weight)| x * weight).sum();
            }
        }
    }

    fn tolerance(&self, io: &Io<'_>, _: &TensorInfo) -> Tolerance {
        let k = io.input(0).shape.last() as f64;
        if self.interleaved.is_some() || (!self.exact && may_round(io.input(1).dtype)) {
            // On the CPU, activations are rounded to 8 bits: an error of at most 1/254 of the largest of 32.
            return Tolerance { nmse: 2e-4, max: 2e-2 };
        }
        // Each of k additions in f32 rounds a sum that has grown with the square root of k.
        Tolerance { nmse: 1e-12 + 1e-13 * k, max: 1e-6 + 1e-6 * k.sqrt() }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let (weights, y) = (io.input(1), io.output(0));
        let Some(Problem { pairs, experts, k, .. }) = Problem::of(io) else { return Work::default() };
        // No more experts are read than there are pairs.
        let read = weights.bytes() as u64 / experts as u64 * pairs.min(experts) as u64;
        let others = [io.input(0), io.input(2), y].iter().map(|info| info.bytes() as u64).sum::<u64>();
        Work { bytes: read + others, flops: (y.elements() as u64).saturating_mul(2).saturating_mul(k as u64) }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        static KERNELS: [&dyn Kernel<Op = ExpertMatmul>; 5] =
            [&cpu::INTEGER, &cpu::ELEMENTS, &cpu::BLOCKS, &gpu::GEMV, &gpu::GEMM];
        &KERNELS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    fn infer(x: &[usize], weights: &[usize], ids: &[usize]) -> Result<Outputs> {
        let inputs = [info(DType::F32, x), info(DType::F32, weights), info(DType::U32, ids)];
        ExpertMatmul::default().infer(&inputs)
    }

    #[test]
    fn outputs_follow_the_ids() {
        for (x, ids, y) in [
            (&[5, 64][..], &[5, 2][..], &[5, 2, 17][..]),
            (&[5, 2, 64], &[5, 2], &[5, 2, 17]),
            (&[64], &[2], &[2, 17]),
            (&[2, 64], &[2], &[2, 17]),
            (&[3, 5, 64], &[3, 5, 2], &[3, 5, 2, 17]),
        ] {
            assert_eq!(infer(x, &[4, 17, 64], ids).unwrap().to_vec(), [info(DType::F32, y)]);
        }
    }

    #[test]
    fn refusals_name_the_argument() {
        let slot = |x: (DType, &[usize]), weights: (DType, &[usize]), ids: (DType, &[usize])| {
            let inputs = [x, weights, ids].map(|(dtype, axes)| info(dtype, axes));
            match ExpertMatmul::default().infer(&inputs) {
                Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
                other => panic!("{other:?}"),
            }
        };
        use DType::{F16, F32, I8, U32};
        let q4_0 = DType::Block(silicide_quant::Format::Q4_0);
        assert_eq!(slot((F16, &[5, 64]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
        assert_eq!(slot((F32, &[5, 64]), (I8, &[4, 17, 64]), (U32, &[5, 2])), "weights");
        assert_eq!(slot((F32, &[5, 64]), (F32, &[17, 64]), (U32, &[5, 2])), "weights");
        assert_eq!(slot((F32, &[5, 48]), (q4_0, &[4, 17, 48]), (U32, &[5, 2])), "weights");
        assert_eq!(slot((F32, &[5, 64]), (F32, &[4, 17, 64]), (F32, &[5, 2])), "ids");
        assert_eq!(slot((F32, &[5, 64]), (F32, &[4, 17, 64]), (U32, &[])), "ids");
        assert_eq!(slot((F32, &[5, 32]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
        assert_eq!(slot((F32, &[5, 3, 64]), (F32, &[4, 17, 64]), (U32, &[5, 2])), "x");
        assert_eq!(slot((F32, &[0, 64]), (F32, &[4, 17, 64]), (U32, &[0, 2])), "x");
    }

    #[test]
    fn work_reads_no_more_experts_than_there_are_pairs() {
        let inputs = [info(DType::F32, &[1, 64]), info(DType::F32, &[32, 17, 64]), info(DType::U32, &[1, 4])];
        let outputs = ExpertMatmul::default().infer(&inputs).unwrap();
        let work = ExpertMatmul::default().work(&Io { inputs: &inputs, outputs: &outputs });
        assert_eq!(work.bytes, 4 * (64 + 4 * 17 * 64 + 4 + 4 * 17));
        assert_eq!(work.flops, 2 * 4 * 17 * 64);
    }
}
