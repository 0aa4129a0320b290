//! Quantized weights to floats: every element of every block or group, as the format defines it.
//!
//! Products and lookups read weights where they lie and do not need this; it is for looking at weights, for embeddings
//! that are used whole, and the proof of each format's decoder on each device.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::is_float;
use crate::weight;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{AsWeight, Error, Recorder, Result};
use silicide_quant::{DType, Encoding};
use smallvec::SmallVec;

/// The op. Inputs: the planes of a quantized weight. Output: `y`, of the weight's shape, in f32, f16 or bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dequantize {
    /// The encoding of the weight.
    pub encoding: Encoding,
    /// The type of the output.
    pub to: DType,
}

impl Op for Dequantize {
    fn name(&self) -> &'static str {
        "dequantize"
    }

    fn slots(&self) -> &'static [Slot] {
        match self.encoding.planes() {
            1 => const { &[Slot::input("x"), Slot::output("y")] },
            2 => const { &[Slot::input("packed"), Slot::input("scales"), Slot::output("y")] },
            _ => {
                const { &[Slot::input("packed"), Slot::input("scales"), Slot::input("biases"), Slot::output("y")] }
            }
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "dequantize";
        let wrong = |slot, expected: &str, got| {
            Err(Error::DTypeMismatch { op, slot, expected: expected.to_owned(), got })
        };
        if let Encoding::Element(dtype) = self.encoding {
            return wrong("x", "a quantized weight (cast converts plain types)", dtype);
        }
        if !is_float(self.to) {
            return wrong("y", "f32, f16 or bf16", self.to);
        }
        let shape = weight::check(op, "x", self.encoding, given)?;
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        if let [y, ..] = outputs {
            // The values are what the format's decoder says; there is nothing to compute.
            y.values = weight::values(self.encoding, inputs);
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        last_bit(output.dtype)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuDequantize, &gpu::GpuDequantize]
    }
}

/// Returns the tolerance of decoding to this type: GPUs may fuse a multiplication with an addition, so the last
/// bit may differ, no more.
pub(crate) fn last_bit(dtype: DType) -> Tolerance {
    let last_bit = match dtype {
        DType::F16 => 9.8e-4,
        DType::BF16 => 7.9e-3,
        _ => 1.2e-7,
    };
    Tolerance { nmse: last_bit * last_bit, max: last_bit }
}

/// Records the values of a [`Weight`](silicide_core::Weight) or a tensor of blocks, as `to`: f32, f16 or bf16. Those of single
/// elements are [cast](crate::cast()).
pub fn dequantize<R: Recorder>(
    recorder: &mut R,
    weight: &impl AsWeight<R::Value>,
    to: DType,
) -> Result<R::Value> {
    let encoding = weight.encoding_in(recorder);
    match (encoding, weight.as_planes()) {
        (Encoding::Element(_), [plane]) => crate::cast(recorder, plane, to),
        (_, planes) => {
            let inputs: SmallVec<[&R::Value; 4]> = planes.iter().collect();
            recorder.run_one(Dequantize { encoding, to }, &inputs)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{Format, MlxFormat, MlxMode, RowEncoding, Shape};

    fn infer(encoding: Encoding, planes: &[(DType, &[usize])]) -> String {
        let info = |(dtype, axes): &(DType, &[usize])| TensorInfo::new(*dtype, Shape::new(axes).unwrap());
        let given: Vec<TensorInfo> = planes.iter().map(info).collect();
        match (Dequantize { encoding, to: DType::F32 }).infer(&given) {
            Ok(outputs) => outputs[0].shape.to_string(),
            Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot.to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn refusals_name_the_plane() {
        use DType::{BF16, F16, U8, U32};
        let affine = Encoding::Planes(MlxFormat::new(MlxMode::Affine, 3, 64, F16).unwrap());
        let packed: (DType, &[usize]) = (U32, &[5, 12]);
        let scales: (DType, &[usize]) = (F16, &[5, 2]);
        assert_eq!(infer(affine, &[packed, scales, scales]), "[5, 128]");
        assert!(infer(affine, &[packed, scales]).contains('3'));
        assert_eq!(infer(affine, &[(U8, &[5, 12]), scales, scales]), "packed");
        assert_eq!(infer(affine, &[(U32, &[5, 13]), scales, scales]), "packed");
        assert_eq!(infer(affine, &[(U32, &[5, 3]), scales, scales]), "packed");
        assert_eq!(infer(affine, &[packed, (BF16, &[5, 2]), scales]), "scales");
        assert_eq!(infer(affine, &[packed, (F16, &[5, 3]), scales]), "scales");
        assert_eq!(infer(affine, &[packed, scales, (F16, &[4, 2])]), "biases");
    }

    #[test]
    fn refusals_of_one_plane_name_it() {
        let blocks = Encoding::Block(Format::Q8_0);
        assert_eq!(infer(blocks, &[(DType::Block(Format::Q8_0), &[2, 64])]), "[2, 64]");
        assert_eq!(infer(blocks, &[(DType::F32, &[2, 64])]), "x");
        assert_eq!(infer(Encoding::Element(DType::F32), &[(DType::F32, &[2, 64])]), "x");
        let interleaved = |rows| Encoding::Interleaved { of: RowEncoding::Block(Format::Q8_0), rows };
        assert_eq!(infer(interleaved(16), &[(DType::U8, &[32, 34])]), "[32, 32]");
        assert_eq!(infer(interleaved(16), &[(DType::U8, &[31, 34])]), "x");
        assert!(infer(interleaved(4), &[(DType::U8, &[32, 34])]).contains("no kernel reads"));
    }
}
