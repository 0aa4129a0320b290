//! Root-mean-square normalisation of rows: `y = x / sqrt(mean(x²) + eps) · weight`, the weight optional.
//!
//! With a residual it first adds: `sum = x + residual`, `y = rms_norm(sum)`, and returns both, since the residual
//! stream goes on with the sum. The norm is taken of the sum *as stored*, so the fused op and its two parts agree.
//!
//! Computed in f32. Squares overflow for magnitudes past 1e19: the row is then zero on the CPU, and zero or NaN on GPUs, as their
//! `inverseSqrt` of infinity is. NaN makes its row NaN; an infinity becomes NaN and the rest of its row zero.

pub mod cases;
mod rows;

use crate::quantize_q8::{self, Q, infer_quantized};
use crate::rowwise::{Arguments, RowOp, RowRoles, RowWords, check_not_negative};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Inputs: `x`, then `residual` and `weight` where it has them. Outputs: `y`, then `sum` with a residual, then the
/// [quantized rows](crate::quantize_q8) of a `y` of f32, if it is [`quantized`](RmsNorm::quantized).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square; finite, not negative.
    pub eps: f32,
    /// Whether `y` is multiplied by a weight per column.
    pub weighted: bool,
    /// Whether a residual is added first, and the sum given out.
    pub residual: bool,
    /// Whether the rows of `y` are given quantized too.
    pub quantized: bool,
}

impl RmsNorm {
    /// Without residual.
    pub const fn new(eps: f32, weighted: bool) -> RmsNorm {
        RmsNorm { eps, weighted, residual: false, quantized: false }
    }

    /// With residual.
    pub const fn with_residual(eps: f32, weighted: bool) -> RmsNorm {
        RmsNorm { eps, weighted, residual: true, quantized: false }
    }

    /// Where the weight stands among the inputs.
    fn weight_index(&self) -> Option<u8> {
        self.weighted.then_some(1 + u8::from(self.residual))
    }
}

impl Op for RmsNorm {
    fn name(&self) -> &'static str {
        "rms_norm"
    }

    fn slots(&self) -> &'static [Slot] {
        const X: Slot = Slot::input("x");
        const RESIDUAL: Slot = Slot::input("residual");
        const WEIGHT: Slot = Slot::input("weight");
        // `y` and `sum` may take the places of `x` and `residual`, either way round.
        const Y: Slot = Slot::output_over("y", 0b01);
        const Y2: Slot = Slot::output_over("y", 0b11);
        const SUM: Slot = Slot::output_over("sum", 0b11);
        match (self.residual, self.weighted, self.quantized) {
            (false, false, false) => &[X, Y],
            (false, false, true) => &[X, Y, Q],
            (false, true, false) => &[X, WEIGHT, Y],
            (false, true, true) => &[X, WEIGHT, Y, Q],
            (true, false, false) => &[X, RESIDUAL, Y2, SUM],
            (true, false, true) => &[X, RESIDUAL, Y2, SUM, Q],
            (true, true, false) => &[X, RESIDUAL, WEIGHT, Y2, SUM],
            (true, true, true) => &[X, RESIDUAL, WEIGHT, Y2, SUM, Q],
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<Outputs> {
        check_not_negative("rms_norm", "eps", self.eps)?;
        let mut arguments = Arguments::new("rms_norm", self.slots(), inputs)?;
        let x = arguments.rows()?;
        let y = TensorInfo::new(x.dtype, x.shape);
        let mut outputs = Outputs::from_slice(&[y]);
        if self.residual {
            arguments.same_as(&x)?;
            outputs.push(y);
        }
        if self.weighted {
            arguments.trailing(&x, 1)?;
        }
        if self.quantized {
            outputs.push(infer_quantized("rms_norm", "x", &y)?);
        }
        Ok(outputs)
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, others @ ..]) = (inputs.first(), outputs) else { return };
        let k = x.shape.last().max(1);
        let mut values = x.values.clone();
        if let (true, Some(residual), [sum, ..]) = (self.residual, inputs.get(1), &mut *others) {
            values.iter_mut().zip(&residual.values).for_each(|(x, r)| *x += r);
            values = silicide_quant::decode(sum.dtype, &silicide_quant::encode(sum.dtype, &values));
            sum.values.clone_from(&values);
        }
        let ones = vec![1.0; k];
        let weight = self.weight_index().and_then(|i| inputs.get(i as usize));
        let weight = weight.map_or(&ones, |weight| &weight.values);
        for (y, x) in y.values.chunks_exact_mut(k).zip(values.chunks_exact(k)) {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / k as f64;
            let scale = 1.0 / (mean + f64::from(self.eps)).sqrt();
            y.iter_mut().zip(x).zip(weight).for_each(|((y, x), w)| *y = x * scale * w);
        }
        if let (true, Some(q)) = (self.quantized, others.last_mut()) {
            q.values = quantize_q8::quantized_bytes(&y.values, k);
        }
    }

    fn tolerance(&self, _: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype == DType::U8 { quantize_q8::TOLERANCE } else { Tolerance::rounding(output.dtype) }
    }

    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        let is_q = self.quantized && i + 1 == io.outputs.len();
        is_q.then(|| quantize_q8::quantized_values(bytes, io.output(0).shape.last()))
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 4)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        const { &[&rows::CPU, &rows::GPU] }
    }
}

impl RowOp for RmsNorm {
    const ROLES: RowRoles = RowRoles {
        other: Some("residual"),
        columns: &["weight"],
        combined: Some("sum"),
        words: &["eps"],
        ..RowRoles::PER_ELEMENT
    };

    fn words(&self) -> RowWords {
        [self.eps, 0.0]
    }

    fn is_quantized(&self) -> bool {
        self.quantized
    }
}

/// `x / sqrt(mean(x²) + eps)` along the last axis, times `weight` where given.
pub fn rms_norm<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: Option<&R::Value>,
    eps: f32,
) -> Result<R::Value> {
    let op = RmsNorm::new(eps, weight.is_some());
    match weight {
        Some(weight) => recorder.run_one(op, &[x, weight]),
        None => recorder.run_one(op, &[x]),
    }
}

/// [`rms_norm`] into `y`, which may be `x`.
pub fn rms_norm_into<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weight: Option<&R::Value>,
    eps: f32,
    y: &R::Value,
) -> Result<()> {
    let op = RmsNorm::new(eps, weight.is_some());
    match weight {
        Some(weight) => recorder.run_into(op, &[x, weight], &[y]),
        None => recorder.run_into(op, &[x], &[y]),
    }
}

/// `sum = x + residual` and `y = rms_norm(sum)` in one pass; returns `(y, sum)`.
pub fn add_rms_norm<R: Recorder>(
    recorder: &mut R,
    [x, residual]: [&R::Value; 2],
    weight: Option<&R::Value>,
    eps: f32,
) -> Result<(R::Value, R::Value)> {
    let op = RmsNorm::with_residual(eps, weight.is_some());
    let outputs = match weight {
        Some(weight) => recorder.run(op, &[x, residual, weight]),
        None => recorder.run(op, &[x, residual]),
    }?;
    let got = outputs.len();
    let mut outputs = outputs.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(y), Some(sum)) => Ok((y, sum)),
        _ => Err(Error::ArgumentCount { op: "rms_norm", what: "outputs", expected: 2, got }),
    }
}
