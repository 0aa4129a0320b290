//! Gated linear units: `activation(gate) * up`, what stands between the two halves of a feed-forward layer.
//!
//! Computed in f32 and rounded once. The result is NaN if either is; the activation of an infinity is its limit, and 0
//! times an infinity is NaN as usual.

pub mod cases;
mod cpu;
mod gpu;

pub use crate::elementwise::activation::Activation;

use crate::elementwise::{check_float, inputs};
use crate::quantize_q8;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Inputs: `gate`, `up` of f32, f16 or bf16 and of one type and shape. Outputs: `y`, likewise, which may be
/// either input; then the [quantized rows](crate::quantize_q8) of a `y` of f32, if it is [`quantized`](Glu::quantized).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Glu {
    /// The activation of the gate.
    pub activation: Activation,
    /// Whether the rows of `y` are given quantized too.
    pub quantized: bool,
}

impl Glu {
    /// Without quantized rows.
    pub const fn new(activation: Activation) -> Glu {
        Glu { activation, quantized: false }
    }
}

impl Op for Glu {
    fn name(&self) -> &'static str {
        "glu"
    }

    fn slots(&self) -> &'static [Slot] {
        const PLAIN: [Slot; 3] = [Slot::input("gate"), Slot::input("up"), Slot::output_over("y", 0b11)];
        const QUANTIZED: [Slot; 4] = {
            let [gate, up, y] = PLAIN;
            [gate, up, y, quantize_q8::Q]
        };
        if self.quantized { &QUANTIZED } else { &PLAIN }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [gate, up] = inputs("glu", self.slots(), given)?;
        check_float("glu", "gate", gate.dtype)?;
        if up.dtype != gate.dtype {
            let expected = gate.dtype.to_string();
            return Err(Error::DTypeMismatch { op: "glu", slot: "up", expected, got: up.dtype });
        }
        if up.shape != gate.shape {
            let expected = gate.shape.to_string();
            return Err(Error::Shape { op: "glu", slot: "up", expected, got: up.shape });
        }
        let y = TensorInfo::new(gate.dtype, gate.shape);
        let mut outputs = Outputs::from_slice(&[y]);
        if self.quantized {
            outputs.push(quantize_q8::infer_quantized("glu", "gate", &y)?);
        }
        Ok(outputs)
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([gate, up, ..], [y, q @ ..]) = (inputs, outputs) else { return };
        let pairs = gate.values.iter().zip(&up.values);
        y.values = pairs.map(|(&gate, &up)| self.activation.exact(gate) * up).collect();
        if let [q] = q {
            q.values = quantize_q8::quantized_bytes(&y.values, y.shape.last());
        }
    }

    fn tolerance(&self, _: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype == DType::U8 { quantize_q8::TOLERANCE } else { Tolerance::rounding(output.dtype) }
    }

    fn decode_output(&self, io: &Io<'_>, i: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        (i == 1).then(|| quantize_q8::quantized_values(bytes, io.output(0).shape.last()))
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 2)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Elements, &gpu::Elements]
    }
}

/// `activation(gate) * up`.
pub fn glu<R: Recorder>(
    recorder: &mut R,
    activation: Activation,
    gate: &R::Value,
    up: &R::Value,
) -> Result<R::Value> {
    recorder.run_one(Glu::new(activation), &[gate, up])
}

/// [`glu`] into `y`, which may be either input.
pub fn glu_into<R: Recorder>(
    recorder: &mut R,
    activation: Activation,
    gate: &R::Value,
    up: &R::Value,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(Glu::new(activation), &[gate, up], &[y])
}
