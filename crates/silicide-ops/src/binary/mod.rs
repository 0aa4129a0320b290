//! Functions of two numbers, element by element. One of the two may lack leading axes, or have 1 there, and is
//! then repeated along them: a bias over rows, a number over a tensor.
//!
//! Computed in f32 and rounded once to the type of `a`. The result is NaN if either is, in `max` and `min` too; which
//! zero they return for zeros of both signs is unspecified. Division by zero results in an infinity or NaN.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::{check_float, inputs};
use silicide_core::kernel::{Host, Kernel, Op, Outputs, Slot, TensorInfo};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::Shape;

/// The op. Inputs: `a`, `b` of f32, f16 or bf16 each. Output: `y`, of the type of `a` and the larger shape, which
/// may be either input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The larger.
    Max,
    /// The smaller.
    Min,
}

impl Binary {
    /// Every function, in the order of [`Binary::code`].
    const ALL: [Binary; 6] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min];

    /// Its number in the parameters of kernels.
    const fn code(self) -> u32 {
        match self {
            Binary::Add => 0,
            Binary::Sub => 1,
            Binary::Mul => 2,
            Binary::Div => 3,
            Binary::Max => 4,
            Binary::Min => 5,
        }
    }

    /// The definition.
    fn exact(self, a: f64, b: f64) -> f64 {
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Max if a > b || a.is_nan() => a,
            Binary::Min if a < b || a.is_nan() => a,
            Binary::Max | Binary::Min => b,
        }
    }
}

/// Whether `short`, but for leading ones, is what `long` ends with.
fn repeats(short: &Shape, long: &Shape) -> bool {
    let axes = short.axes();
    let ones = axes.iter().take_while(|&&extent| extent == 1).count();
    axes.len() <= long.rank() && long.axes().ends_with(axes.get(ones..).unwrap_or(&[]))
}

impl Op for Binary {
    fn name(&self) -> &'static str {
        "binary"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("a"), Slot::input("b"), Slot::output_over("y", 0b11)] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [a, b] = inputs("binary", self.slots(), given)?;
        check_float("binary", "a", a.dtype)?;
        check_float("binary", "b", b.dtype)?;
        let shape = if repeats(&b.shape, &a.shape) {
            a.shape
        } else if repeats(&a.shape, &b.shape) {
            b.shape
        } else {
            let expected = format!("the last axes of {} or those and more", a.shape);
            return Err(Error::Shape { op: "binary", slot: "b", expected, got: b.shape });
        };
        Ok(Outputs::from_slice(&[TensorInfo::new(a.dtype, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([a, b, ..], [y, ..]) = (inputs, outputs) else { return };
        let pairs = a.values.iter().cycle().zip(b.values.iter().cycle());
        y.values = pairs.take(y.shape.elements()).map(|(&a, &b)| self.exact(a, b)).collect();
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuBinary, &gpu::GpuBinary]
    }
}

/// Applies `function` to pairs of elements.
pub fn binary<R: Recorder>(
    recorder: &mut R,
    function: Binary,
    a: &R::Value,
    b: &R::Value,
) -> Result<R::Value> {
    recorder.run_one(function, &[a, b])
}

/// Declares a function per kind.
macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident = $function:expr;)*) => {$(
        $(#[$meta])*
        pub fn $name<R: Recorder>(recorder: &mut R, a: &R::Value, b: &R::Value) -> Result<R::Value> {
            binary(recorder, $function, a, b)
        }
    )*};
}

functions! {
    /// `a + b`.
    add = Binary::Add;
    /// `a - b`.
    sub = Binary::Sub;
    /// `a * b`.
    mul = Binary::Mul;
    /// `a / b`.
    div = Binary::Div;
    /// The larger of each pair; NaN if either is.
    max = Binary::Max;
    /// The smaller of each pair; NaN if either is.
    min = Binary::Min;
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::DType;

    fn info(extents: &[usize]) -> TensorInfo {
        TensorInfo::new(DType::F32, Shape::new(extents).unwrap())
    }

    #[test]
    fn leading_axes_are_repeated_and_others_refused() {
        let out = |a: &[usize], b: &[usize]| Binary::Sub.infer(&[info(a), info(b)]).map(|out| out[0].shape);
        let shape = |extents: &[usize]| Shape::new(extents).unwrap();
        assert_eq!(out(&[2, 3], &[3]).unwrap(), shape(&[2, 3]));
        assert_eq!(out(&[3], &[2, 3]).unwrap(), shape(&[2, 3]));
        assert_eq!(out(&[2, 3], &[1, 3]).unwrap(), shape(&[2, 3]));
        assert_eq!(out(&[], &[2, 3]).unwrap(), shape(&[2, 3]));
        assert_eq!(out(&[3], &[1, 3]).unwrap(), shape(&[1, 3]));
        assert_eq!(out(&[1, 3], &[3]).unwrap(), shape(&[1, 3]));
        assert!(matches!(out(&[2, 3], &[2, 1]), Err(Error::Shape { slot: "b", .. })));
        assert!(matches!(out(&[2, 3], &[2]), Err(Error::Shape { .. })));
        assert!(matches!(out(&[0, 3], &[3]), Err(Error::Shape { slot: "a", .. })));
        let integers = TensorInfo::new(DType::I32, shape(&[3]));
        assert!(matches!(
            Binary::Add.infer(&[info(&[3]), integers]),
            Err(Error::DTypeMismatch { slot: "b", .. })
        ));
        assert!(matches!(
            Binary::Add.infer(&[info(&[3])]),
            Err(Error::ArgumentCount { expected: 2, got: 1, .. })
        ));
    }
}
