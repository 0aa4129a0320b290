//! Block formats to floats: every element of every block, as the format defines it.
//!
//! Matmul and attention read blocks where they lie and do not need this; it is for looking at weights, for embeddings
//! that are used whole, and the proof of each format's decoder on each device.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::{inputs, is_float};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Input: `x` in a block format. Output: `y`, of the same shape, in f32, f16 or bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dequantize {
    /// The type of the output.
    pub to: DType,
}

impl Op for Dequantize {
    fn name(&self) -> &'static str {
        "dequantize"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [x] = inputs("dequantize", self.slots(), given)?;
        let wrong = |slot, expected: &str, got| {
            Err(Error::DTypeMismatch { op: "dequantize", slot, expected: expected.to_owned(), got })
        };
        if !x.dtype.is_block() {
            return wrong("x", "a block format (cast converts plain types)", x.dtype);
        }
        if !is_float(self.to) {
            return wrong("y", "f32, f16 or bf16", self.to);
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        // The values of a block are what its format's decoder says; there is nothing to compute.
        y.values.clone_from(&x.values);
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        last_bit(output.dtype)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Blocks, &gpu::Elements]
    }
}

/// What decoding may be off by in an output of this type: GPUs may fuse a multiplication with an addition, so the last
/// bit may differ, no more.
pub(crate) fn last_bit(dtype: DType) -> Tolerance {
    let last_bit = match dtype {
        DType::F16 => 9.8e-4,
        DType::BF16 => 7.9e-3,
        _ => 1.2e-7,
    };
    Tolerance { nmse: last_bit * last_bit, max: last_bit }
}

/// The values of blocks, as `to`: f32, f16 or bf16.
pub fn dequantize<R: Recorder>(recorder: &mut R, x: &R::Value, to: DType) -> Result<R::Value> {
    recorder.run_one(Dequantize { to }, &[x])
}

/// [`dequantize`] into `y`, which is of type `to`.
pub fn dequantize_into<R: Recorder>(recorder: &mut R, x: &R::Value, to: DType, y: &R::Value) -> Result<()> {
    recorder.run_into(Dequantize { to }, &[x], &[y])
}
