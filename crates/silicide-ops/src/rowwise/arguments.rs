//! Checks of the arguments of a row-wise op, slot by slot. Errors name the op, the slot, what was expected and what was
//! given.

use silicide_core::kernel::{Slot, TensorInfo};
use silicide_core::{Error, Result};
use silicide_quant::{DType, Shape};

/// The inputs of an op, taken and checked one after another against its slots.
pub(crate) struct Arguments<'a> {
    op: &'static str,
    slots: std::slice::Iter<'static, Slot>,
    inputs: std::slice::Iter<'a, TensorInfo>,
}

impl<'a> Arguments<'a> {
    /// The inputs of `op`; refuses any number but that of its input slots.
    pub(crate) fn new(
        op: &'static str,
        slots: &'static [Slot],
        inputs: &'a [TensorInfo],
    ) -> Result<Arguments<'a>> {
        let expected = slots.iter().filter(|slot| !slot.access.writes()).count();
        if inputs.len() == expected {
            Ok(Arguments { op, slots: slots.iter(), inputs: inputs.iter() })
        } else {
            Err(Error::ArgumentCount { op, what: "inputs", expected, got: inputs.len() })
        }
    }

    fn next(&mut self) -> Result<(&'static str, TensorInfo)> {
        // `new` counted, so this error means that an op reads more inputs than it has slots.
        match (self.slots.next(), self.inputs.next()) {
            (Some(slot), Some(input)) => Ok((slot.name, *input)),
            _ => Err(Error::ArgumentCount { op: self.op, what: "input slots", expected: 1, got: 0 }),
        }
    }

    fn shape_error(&self, slot: &'static str, expected: String, got: Shape) -> Error {
        Error::Shape { op: self.op, slot, expected, got }
    }

    /// The next input: rows of f32, f16 or bf16, at least one element.
    pub(crate) fn rows(&mut self) -> Result<TensorInfo> {
        let (slot, input) = self.next()?;
        if !matches!(input.dtype, DType::F32 | DType::F16 | DType::BF16) {
            let expected = "f32, f16 or bf16".to_owned();
            return Err(Error::DTypeMismatch { op: self.op, slot, expected, got: input.dtype });
        }
        if input.elements() == 0 {
            return Err(self.shape_error(slot, "at least one element".to_owned(), input.shape));
        }
        Ok(input)
    }

    /// The next input: of the same type and shape as `x`.
    pub(crate) fn same_as(&mut self, x: &TensorInfo) -> Result<TensorInfo> {
        let (slot, input) = self.next()?;
        if input.dtype != x.dtype {
            let expected = x.dtype.to_string();
            return Err(Error::DTypeMismatch { op: self.op, slot, expected, got: input.dtype });
        }
        if input.shape != x.shape {
            return Err(self.shape_error(slot, x.shape.to_string(), input.shape));
        }
        Ok(input)
    }

    /// The next input: f32 or the type of `x`, shaped as the last axes of `x`, and repeated over the others. At
    /// most `rank` axes.
    pub(crate) fn trailing(&mut self, x: &TensorInfo, rank: usize) -> Result<TensorInfo> {
        let (slot, input) = self.next()?;
        if input.dtype != DType::F32 && input.dtype != x.dtype {
            let expected = match x.dtype {
                DType::F32 => "f32".to_owned(),
                other => format!("f32 or {other}"),
            };
            return Err(Error::DTypeMismatch { op: self.op, slot, expected, got: input.dtype });
        }
        let axes = input.shape.axes();
        // A row may be a scalar's single element, which a vector of one matches.
        let of_scalar = x.shape.rank() == 0 && axes == [1];
        if of_scalar || (axes.len() <= rank && !axes.is_empty() && x.shape.axes().ends_with(axes)) {
            Ok(input)
        } else {
            let expected = match rank {
                1 => format!("[{}], the last axis of the rows", x.shape.last()),
                _ => format!("the last axes of {}", x.shape),
            };
            Err(self.shape_error(slot, expected, input.shape))
        }
    }
}

/// Refuses a parameter that is negative or not finite.
pub(crate) fn check_not_negative(op: &'static str, name: &str, value: f32) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(Error::BadParameter { op, what: format!("{name} must be finite and not negative, got {value}") })
    }
}

/// A shape without its last axis: what is left when each row becomes one number.
pub(crate) fn without_last(op: &'static str, shape: &Shape) -> Result<Shape> {
    let axes = shape.axes();
    let kept = axes.get(..axes.len().saturating_sub(1)).unwrap_or(&[]);
    Shape::new(kept).map_err(|source| Error::bad_shape(op, source))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_norm::LayerNorm;
    use crate::reduce::{Reduce, Reduction};
    use crate::rms_norm::RmsNorm;
    use crate::softmax::Softmax;
    use silicide_core::kernel::Op;

    fn info(dtype: DType, extents: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(extents).unwrap())
    }

    fn message(op: &impl Op, inputs: &[TensorInfo]) -> String {
        op.infer(inputs).unwrap_err().to_string()
    }

    #[test]
    fn refusals_say_what_was_expected() {
        let x = info(DType::F16, &[2, 3, 8]);
        let norm = RmsNorm::new(1e-6, true);
        for (message, expected) in [
            (message(&norm, &[x]), "rms_norm: takes 2 inputs, got 1"),
            (
                message(&norm, &[x, info(DType::F16, &[3])]),
                "rms_norm: weight has shape [3], expected [8], the last axis of the rows",
            ),
            (
                message(&norm, &[x, info(DType::BF16, &[8])]),
                "rms_norm: weight has type bf16, expected f32 or f16",
            ),
            (
                message(&norm, &[info(DType::I32, &[8]), info(DType::F32, &[8])]),
                "rms_norm: x has type i32, expected f32, f16 or bf16",
            ),
            (
                message(&RmsNorm::with_residual(1e-6, false), &[x, info(DType::F16, &[6, 8])]),
                "rms_norm: residual has shape [6, 8], expected [2, 3, 8]",
            ),
            (
                message(&RmsNorm::new(-1.0, false), &[x]),
                "rms_norm: eps must be finite and not negative, got -1",
            ),
            (
                message(&LayerNorm { eps: f32::NAN, weighted: false, biased: false }, &[x]),
                "layer_norm: eps must be finite and not negative, got NaN",
            ),
            (
                message(&Softmax { scale: 1.0, masked: true }, &[x, info(DType::F32, &[2, 8])]),
                "softmax: mask has shape [2, 8], expected the last axes of [2, 3, 8]",
            ),
            (
                message(&Reduce { reduction: Reduction::Sum }, &[info(DType::F32, &[3, 0])]),
                "reduce: x has shape [3, 0], expected at least one element",
            ),
        ] {
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn outputs_follow_the_rows() {
        let x = info(DType::BF16, &[2, 3, 8]);
        let masked = Softmax { scale: 1.0, masked: true };
        for mask in [&[8][..], &[3, 8], &[2, 3, 8]] {
            assert_eq!(masked.infer(&[x, info(DType::F32, mask)]).unwrap().as_slice(), [x]);
        }
        let residual = RmsNorm::with_residual(0.0, true).infer(&[x, x, info(DType::BF16, &[8])]);
        assert_eq!(residual.unwrap().as_slice(), [x, x]);
        let sum = Reduce { reduction: Reduction::Sum };
        assert_eq!(sum.infer(&[x]).unwrap().as_slice(), [info(DType::BF16, &[2, 3])]);
        assert_eq!(sum.infer(&[info(DType::F32, &[])]).unwrap().as_slice(), [info(DType::F32, &[])]);
    }
}
