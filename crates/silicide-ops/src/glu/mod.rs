//! Gated linear units: `activation(gate) * up`, what stands between the two halves of a feed-forward layer.
//!
//! Computed in f32 and rounded once. NaN in either gives NaN; the activation of an infinity is its limit, and 0
//! times an infinity is NaN as usual.

pub mod cases;
mod cpu;
mod gpu;

pub use crate::elementwise::activation::Activation;

use crate::elementwise::{check_float, inputs};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};

/// The op. Inputs: `gate`, `up` of f32, f16 or bf16 and of one type and shape. Output: `y`, likewise, which may be
/// either input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Glu {
    /// The activation of the gate.
    pub activation: Activation,
}

impl Op for Glu {
    fn name(&self) -> &'static str {
        "glu"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("gate"), Slot::input("up"), Slot::output_over("y", 0b11)] }
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
        Ok(Outputs::from_slice(&[TensorInfo::new(gate.dtype, gate.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([gate, up, ..], [y, ..]) = (inputs, outputs) else { return };
        let pairs = gate.values.iter().zip(&up.values);
        y.values = pairs.map(|(&gate, &up)| self.activation.exact(gate) * up).collect();
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
    recorder.run_one(Glu { activation }, &[gate, up])
}

/// [`glu`] into `y`, which may be either input.
pub fn glu_into<R: Recorder>(
    recorder: &mut R,
    activation: Activation,
    (gate, up): (&R::Value, &R::Value),
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(Glu { activation }, &[gate, up], &[y])
}
