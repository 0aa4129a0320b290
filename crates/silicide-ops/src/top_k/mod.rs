//! The k largest elements of each row, largest first, and their indices.
//!
//! Of equal elements the first comes first, -0 and +0 being equal. NaN counts as larger than everything, as in `argmax`.

pub mod cases;
mod cpu;
mod gpu;

use crate::rowwise::Arguments;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The largest k.
pub const MOST: usize = 1024;

/// The op. Input: `x` of f32, f16 or bf16. Outputs: `values` of f32 and `indices` of u32, both with `k` as the last axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopK {
    /// How many: at most [`MOST`], and at most as many as a row has.
    pub k: usize,
}

impl Op for TopK {
    fn name(&self) -> &'static str {
        "top_k"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("values"), Slot::output("indices")] }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        let op = "top_k";
        let x = Arguments::new(op, self.slots(), inputs)?.rows()?;
        if self.k == 0 || self.k > MOST {
            let what = format!("k must be from 1 to {MOST}, got {}", self.k);
            return Err(Error::BadParameter { op, what });
        }
        if x.shape.last() < self.k || u32::try_from(x.shape.last()).is_err() {
            let expected = format!("rows of {} to 4294967295 elements", self.k);
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        }
        let shape = x.shape.with_last(self.k).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape), TensorInfo::new(DType::U32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [values, indices, ..]) = (inputs.first(), outputs) else { return };
        let rows = x.values.chunks_exact(x.shape.last().max(1));
        let places = values.values.chunks_exact_mut(self.k).zip(indices.values.chunks_exact_mut(self.k));
        for (x, (values, indices)) in rows.zip(places) {
            let mut order: Vec<(usize, f64)> = x.iter().copied().enumerate().collect();
            // NaN first, then from the largest; the sort keeps the order of equals.
            let rank = |value: f64| (!value.is_nan(), if value.is_nan() { 0.0 } else { -value });
            order.sort_by(|(_, a), (_, b)| {
                rank(*a).partial_cmp(&rank(*b)).unwrap_or(std::cmp::Ordering::Equal)
            });
            for ((value, index), (i, x)) in values.iter_mut().zip(indices).zip(order) {
                (*value, *index) = (x, i as f64);
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuTopK, &gpu::GpuTopK]
    }
}

/// The k largest elements of each row, largest first: values and indices, both with `k` as the last axis.
pub fn top_k<R: Recorder>(recorder: &mut R, x: &R::Value, k: usize) -> Result<(R::Value, R::Value)> {
    let mut outputs = recorder.run(TopK { k }, &[x])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(values), Some(indices)) => Ok((values, indices)),
        _ => Err(Error::ArgumentCount { op: "top_k", what: "outputs", expected: 2, got: 0 }),
    }
}
