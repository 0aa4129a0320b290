//! Functions of one number, applied to every element.
//!
//! Computed in f32 and rounded once to the type of `x`. NaN stays NaN. Infinities become the function's limit: silu
//! and gelu of -infinity are 0. `log` of a negative number and `sqrt` of one are NaN, `log` of zero is -infinity.
//! Devices may take subnormal inputs for zero.

pub mod cases;
mod cpu;
mod gpu;

pub use crate::elementwise::activation::Activation;

use crate::elementwise::{check_float, inputs};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Input: `x` of f32, f16 or bf16. Output: `y` of the same type and shape, which may be `x`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Unary {
    /// An activation.
    Activate(Activation),
    /// `max(x, 0)`.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
    /// `e^x`.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// `-x`.
    Neg,
    /// `cap * tanh(x / cap)`.
    Softcap {
        /// Where it levels off; finite, above zero.
        cap: f32,
    },
    /// `factor * x`.
    Scale {
        /// The factor.
        factor: f32,
    },
}

/// By bits: a factor of -0 has other results than 0.
impl PartialEq for Unary {
    fn eq(&self, other: &Unary) -> bool {
        (self.code(), self.parameter().to_bits()) == (other.code(), other.parameter().to_bits())
    }
}

impl Unary {
    /// The function's number in the parameters of kernels; activations come first.
    const fn code(self) -> u32 {
        match self {
            Unary::Activate(activation) => activation.code(),
            Unary::Relu => 4,
            Unary::Tanh => 5,
            Unary::Exp => 6,
            Unary::Log => 7,
            Unary::Sqrt => 8,
            Unary::Neg => 9,
            Unary::Softcap { .. } => 10,
            Unary::Scale { .. } => 11,
        }
    }

    /// Its parameter, or 0.
    const fn parameter(self) -> f32 {
        match self {
            Unary::Softcap { cap } => cap,
            Unary::Scale { factor } => factor,
            _ => 0.0,
        }
    }

    /// The definition.
    fn exact(self, x: f64) -> f64 {
        match self {
            Unary::Activate(activation) => activation.exact(x),
            Unary::Relu if x < 0.0 => 0.0,
            Unary::Relu => x,
            Unary::Tanh => x.tanh(),
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Sqrt => x.sqrt(),
            Unary::Neg => -x,
            Unary::Softcap { cap } => f64::from(cap) * (x / f64::from(cap)).tanh(),
            Unary::Scale { factor } => f64::from(factor) * x,
        }
    }
}

impl Op for Unary {
    fn name(&self) -> &'static str {
        "unary"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output_over("y", 0b1)] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        if let Unary::Softcap { cap } = *self
            && !(cap.is_finite() && cap > 0.0)
        {
            let what = format!("the cap must be finite and above zero, got {cap}");
            return Err(Error::BadParameter { op: "unary", what });
        }
        let [x] = inputs("unary", self.slots(), given)?;
        check_float("unary", "x", x.dtype)?;
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        y.values = x.values.iter().map(|&x| self.exact(x)).collect();
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match (self, output.dtype) {
            (Unary::Neg | Unary::Relu, _) => Tolerance::EXACT,
            // An exponential magnifies the error of its argument by the argument's size.
            (Unary::Exp, DType::F32) => Tolerance { nmse: 1e-10, max: 2e-5 },
            _ => Tolerance::rounding(output.dtype),
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuUnary, &gpu::GpuUnary]
    }
}

/// Applies `function` to every element.
pub fn unary<R: Recorder>(recorder: &mut R, function: Unary, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(function, &[x])
}

/// Declares a function per kind.
macro_rules! functions {
    ($($(#[$meta:meta])* $name:ident($($parameter:ident)?) = $function:expr;)*) => {$(
        $(#[$meta])*
        pub fn $name<R: Recorder>(recorder: &mut R, x: &R::Value $(, $parameter: f32)?) -> Result<R::Value> {
            unary(recorder, $function, x)
        }
    )*};
}

functions! {
    /// `x * sigmoid(x)`.
    silu() = Unary::Activate(Activation::Silu);
    /// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, the usual approximation of [`gelu_erf`].
    gelu_tanh() = Unary::Activate(Activation::GeluTanh);
    /// `x / 2 * (1 + erf(x / sqrt 2))`.
    gelu_erf() = Unary::Activate(Activation::GeluErf);
    /// `1 / (1 + e^-x)`.
    sigmoid() = Unary::Activate(Activation::Sigmoid);
    /// `max(x, 0)`.
    relu() = Unary::Relu;
    /// The hyperbolic tangent.
    tanh() = Unary::Tanh;
    /// `e^x`.
    exp() = Unary::Exp;
    /// The natural logarithm.
    log() = Unary::Log;
    /// The square root.
    sqrt() = Unary::Sqrt;
    /// `-x`.
    neg() = Unary::Neg;
    /// `cap * tanh(x / cap)`.
    softcap(cap) = Unary::Softcap { cap };
    /// `factor * x`.
    scale(factor) = Unary::Scale { factor };
}
