//! MLX weights to floats: every element, as its format defines it. `dequantize` for weights in planes, and the proof of
//! their decoders on each device.

pub mod cases;
mod cpu;
mod gpu;

use crate::dequantize::last_bit;
use crate::elementwise::is_float;
use crate::mlx::{self, MlxOperands};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, MlxFormat};

/// The op. Inputs: `packed`, `scales` and, for affine formats, `biases`. Output: `y`, the weight in f32, f16 or bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MlxDequantize {
    /// The format of the planes.
    pub format: MlxFormat,
    /// The type of the output.
    pub to: DType,
}

impl Op for MlxDequantize {
    fn name(&self) -> &'static str {
        "mlx_dequantize"
    }

    fn slots(&self) -> &'static [Slot] {
        if self.format.has_biases() {
            const { &[Slot::input("packed"), Slot::input("scales"), Slot::input("biases"), Slot::output("y")] }
        } else {
            const { &[Slot::input("packed"), Slot::input("scales"), Slot::output("y")] }
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, expected) = ("mlx_dequantize", mlx::planes(self.format));
        if given.len() != expected {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        }
        if !is_float(self.to) {
            let expected = "f32, f16 or bf16".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "y", expected, got: self.to });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, mlx::check(op, self.format, given)?)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        if let [y, ..] = outputs {
            y.values = mlx::values(self.format, inputs);
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        last_bit(output.dtype)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Groups, &gpu::Elements]
    }
}

/// The values of a weight, as `to`: f32, f16 or bf16.
pub fn mlx_dequantize<R: Recorder>(
    recorder: &mut R,
    weight: &MlxOperands<'_, R::Value>,
    to: DType,
) -> Result<R::Value> {
    recorder.run_one(MlxDequantize { format: weight.format, to }, &weight.after(None))
}

/// [`mlx_dequantize`] into `y`, which is of type `to`.
pub fn mlx_dequantize_into<R: Recorder>(
    recorder: &mut R,
    weight: &MlxOperands<'_, R::Value>,
    to: DType,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(MlxDequantize { format: weight.format, to }, &weight.after(None), &[y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{MlxMode, Shape};

    #[test]
    fn refusals_name_the_plane() {
        use DType::{BF16, F16, F32, U8, U32};
        let format = MlxFormat::new(MlxMode::Affine, 3, 64, F16).unwrap();
        let infer = |planes: &[(DType, &[usize])]| {
            let info = |(dtype, axes): &(DType, &[usize])| TensorInfo::new(*dtype, Shape::new(axes).unwrap());
            let given: Vec<TensorInfo> = planes.iter().map(info).collect();
            match (MlxDequantize { format, to: F32 }).infer(&given) {
                Ok(outputs) => outputs[0].shape.to_string(),
                Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot.to_owned(),
                Err(error) => error.to_string(),
            }
        };
        let packed: (DType, &[usize]) = (U32, &[5, 12]);
        let scales: (DType, &[usize]) = (F16, &[5, 2]);
        assert_eq!(infer(&[packed, scales, scales]), "[5, 128]");
        assert!(infer(&[packed, scales]).contains("3"));
        assert_eq!(infer(&[(U8, &[5, 12]), scales, scales]), "packed");
        assert_eq!(infer(&[(U32, &[5, 13]), scales, scales]), "packed");
        assert_eq!(infer(&[(U32, &[5, 3]), scales, scales]), "packed");
        assert_eq!(infer(&[packed, (BF16, &[5, 2]), scales]), "scales");
        assert_eq!(infer(&[packed, (F16, &[5, 3]), scales]), "scales");
        assert_eq!(infer(&[packed, scales, (F16, &[4, 2])]), "biases");
    }
}
