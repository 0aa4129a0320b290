//! Copies and conversions between element types.
//!
//! The result is the nearest value of the new type: floats round to nearest even, integers truncate toward zero
//! and saturate, NaN stays NaN in floats and becomes 0 in integers. Integers of 64 bits pass through f64 on their
//! way to a float, and through f32 on GPUs. The same type is copied bit by bit. f64 lives on the CPU only.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{
    Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo, Tolerance,
};
use silicide_core::{Error, Recorder, Result};
use silicide_hal::DeviceInfo;
use silicide_quant::DType;

/// The op. Input: `x` of any type. Output: `y`, of the same shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cast {
    /// The type of the output.
    pub to: DType,
}

impl Op for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [x] = inputs("cast", self.slots(), given)?;
        if x.dtype != self.to && (x.dtype.is_compressed() || self.to.is_compressed()) {
            let expected = format!("{} or, to be converted, no compressed type", self.to);
            return Err(Error::DTypeMismatch { op: "cast", slot: "x", expected, got: x.dtype });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        // The caller stores values in the type of `y`: that is the conversion.
        y.values.clone_from(&x.values);
    }

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if output.dtype.is_float() && !io.input(0).dtype.is_float() {
            Tolerance::rounding(output.dtype)
        } else {
            Tolerance::EXACT
        }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&CastCopy, &cpu::CpuCastFloats, &cpu::CpuCastNumbers, &gpu::GpuCastNumbers]
    }
}

/// The same type: bytes are moved by the device's own copy.
struct CastCopy;

impl Kernel for CastCopy {
    type Op = Cast;

    fn name(&self) -> &'static str {
        "cast.copy"
    }

    fn fits(&self, op: &Cast, io: &Io<'_>, _on: &DeviceInfo) -> Result<Cost, Decline> {
        if io.input(0).dtype == op.to { Ok(Cost::BEST) } else { Err(Decline("takes equal types only")) }
    }

    fn plan(&self, _op: &Cast, _io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        plan.steps.push(Step::Copy { from: Arg::slot(0), to: Arg::slot(1) });
        plan
    }
}

/// Converts every element to type `to`; a copy where that is the type of `x`.
pub fn cast<R: Recorder>(recorder: &mut R, x: &R::Value, to: DType) -> Result<R::Value> {
    recorder.run_one(Cast { to }, &[x])
}
