//! A tensor of one value. The value is stored as [`encode`](silicide_quant::encode) stores it: rounded to nearest
//! in floats, truncated and saturated in integers.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::check_plain;
use silicide_core::kernel::{
    Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo, Tolerance, Work,
};
use silicide_core::{Error, Recorder, Result};
use silicide_hal::DeviceInfo;
use silicide_quant::{DType, Shape, encode};

/// The op. No inputs. Output: `y`.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// The type of the output.
    pub dtype: DType,
    /// Its extents.
    pub shape: Shape,
    /// The value of every element.
    pub value: f64,
}

/// By bits: -0 is another value than 0.
impl PartialEq for Fill {
    fn eq(&self, other: &Fill) -> bool {
        (self.dtype, self.shape, self.value.to_bits()) == (other.dtype, other.shape, other.value.to_bits())
    }
}

impl Fill {
    /// The bits of an element, low word first; upper bits are zero.
    fn bits(&self) -> [u32; 2] {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(encode(self.dtype, &[self.value])).for_each(|(to, from)| *to = from);
        let bits = u64::from_le_bytes(bytes);
        [bits as u32, (bits >> 32) as u32]
    }

    /// The word that, repeated, is the element repeated; none for most 64-bit elements.
    fn word(&self) -> Option<u32> {
        let [low, high] = self.bits();
        match self.dtype.size() {
            1 => Some(low * 0x0101_0101),
            2 => Some(low * 0x0001_0001),
            4 => Some(low),
            _ => Some(low).filter(|_| low == high),
        }
    }
}

impl Op for Fill {
    fn name(&self) -> &'static str {
        "fill"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        if !given.is_empty() {
            return Err(Error::ArgumentCount { op: "fill", what: "inputs", expected: 0, got: given.len() });
        }
        check_plain("fill", "y", self.dtype)?;
        if self.shape.elements() == 0 {
            let expected = "at least one element".to_owned();
            return Err(Error::Shape { op: "fill", slot: "y", expected, got: self.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(self.dtype, self.shape)]))
    }

    fn reference(&self, _inputs: &[Host], outputs: &mut [Host]) {
        if let [y, ..] = outputs {
            y.values = vec![self.value; y.shape.elements()];
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, 0)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&FillWords, &cpu::CpuFill, &gpu::GpuFill]
    }
}

/// Whole words of one pattern: the device's own fill.
struct FillWords;

impl Kernel for FillWords {
    type Op = Fill;

    fn name(&self) -> &'static str {
        "fill.words"
    }

    fn fits(&self, op: &Fill, io: &Io<'_>, _on: &DeviceInfo) -> Result<Cost, Decline> {
        let y = io.output(0);
        if y.alignment < 4 || !y.bytes().is_multiple_of(4) {
            Err(Decline("takes whole words only"))
        } else if op.word().is_none() {
            Err(Decline("takes patterns of 32 bits only"))
        } else {
            Ok(Cost::BEST)
        }
    }

    fn plan(&self, op: &Fill, _io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        let mut plan = Plan::default();
        plan.steps.extend(op.word().map(|value| Step::Fill { to: Arg::slot(0), value }));
        plan
    }
}

/// A tensor of one value.
pub fn fill<R: Recorder>(recorder: &mut R, dtype: DType, shape: Shape, value: f64) -> Result<R::Value> {
    recorder.run_one(Fill { dtype, shape, value }, &[])
}
