//! Copies between layouts: any regular pattern of elements to a dense tensor, or from and to patterns of two
//! buffers. Windows of an image, columns, heads of a cache and broadcasts (stride 0) are all this. Bits are moved
//! as they are.

pub mod cases;
pub(crate) mod cpu;
pub(crate) mod gpu;
mod layout;
mod walk;

pub use layout::Layout;
pub(crate) use walk::Walk;

use walk::Axis;

use crate::elementwise::{check_plain, fits_cpu, fits_gpu, inputs};
use silicide_core::kernel::{
    Arg, Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, Step, TensorInfo, Tolerance, Work,
};
use silicide_core::{Error, Recorder, Result};
use silicide_hal::DeviceInfo;
use silicide_quant::Shape;

/// The op. Input: `x` of any type. Output: `y` of the same type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StridedCopy {
    /// The extents of what is copied.
    pub shape: Shape,
    /// Where it lies in `x`.
    pub from: Layout,
    /// Where it goes in `y`, of which the rest is left alone. Without one, `y` is a dense tensor of `shape`.
    pub to: Option<Layout>,
}

impl StridedCopy {
    fn walk(&self) -> Walk {
        Walk::new(&self.shape, &self.from, &self.to.unwrap_or(Layout::dense(&self.shape)))
    }

    /// The elements a buffer must have for the layout; refuses what can't be counted.
    fn needed(&self, what: &str, layout: &Layout) -> Result<usize> {
        let last = layout.last(&self.shape);
        last.and_then(|last| last.checked_add(1)).ok_or_else(|| Error::BadParameter {
            op: "strided_copy",
            what: format!("the layout {what} reaches further than can be counted"),
        })
    }
}

impl Op for StridedCopy {
    fn name(&self) -> &'static str {
        "strided_copy"
    }

    fn slots(&self) -> &'static [Slot] {
        match self.to {
            None => const { &[Slot::input("x"), Slot::output("y")] },
            Some(_) => const { &[Slot::input("x"), Slot::update("y")] },
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "strided_copy";
        let [x] = inputs(op, self.slots(), given)?;
        check_plain(op, "x", x.dtype)?;
        if self.shape.elements() == 0 {
            let what = format!("copies at least one element, got shape {}", self.shape);
            return Err(Error::BadParameter { op, what });
        }
        let needed = self.needed("from", &self.from)?;
        if x.elements() < needed {
            let expected = format!("at least {needed} elements, which the layout reaches");
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        }
        let shape = match &self.to {
            None => self.shape,
            Some(to) if !to.is_injective(&self.shape) => {
                let what = "the layout to puts two elements in one place".to_owned();
                return Err(Error::BadParameter { op, what });
            }
            Some(to) => {
                Shape::new(&[self.needed("to", to)?]).map_err(|source| Error::bad_shape(op, source))?
            }
        };
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, shape)]))
    }

    fn check_outputs(&self, inferred: &[TensorInfo], given: &[TensorInfo]) -> Result<()> {
        let op = "strided_copy";
        for (inferred, given) in inferred.iter().zip(given) {
            if inferred.dtype != given.dtype {
                let expected = inferred.dtype.to_string();
                return Err(Error::DTypeMismatch { op, slot: "y", expected, got: given.dtype });
            }
            // Into a layout, any shape will do that reaches far enough.
            let fits = match self.to {
                None => inferred.shape == given.shape,
                Some(_) => given.elements() >= inferred.elements(),
            };
            if !fits {
                let expected = match self.to {
                    None => inferred.shape.to_string(),
                    Some(_) => format!("at least {} elements", inferred.elements()),
                };
                return Err(Error::Shape { op, slot: "y", expected, got: given.shape });
            }
        }
        Ok(())
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let to = self.to.unwrap_or(Layout::dense(&self.shape));
        for i in 0..self.shape.elements() {
            let value = x.values.get(self.from.at(&self.shape, i));
            if let (Some(from), Some(to)) = (value, y.values.get_mut(to.at(&self.shape, i))) {
                *to = *from;
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let bytes = self.shape.elements() * io.output(0).dtype.size() * 2;
        Work { bytes: bytes as u64, flops: 0 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&DenseCopy, &Native, &Wgsl]
    }
}

/// One run of bytes: the device's own copy.
struct DenseCopy;

impl Kernel for DenseCopy {
    type Op = StridedCopy;

    fn name(&self) -> &'static str {
        "strided_copy.dense"
    }

    fn fits(&self, op: &StridedCopy, _io: &Io<'_>, _on: &DeviceInfo) -> Result<Cost, Decline> {
        if op.walk().is_dense() { Ok(Cost::BEST) } else { Err(Decline("takes one run of elements only")) }
    }

    fn plan(&self, op: &StridedCopy, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        op.walk().copy(io.input(0).dtype.size())
    }
}

/// Declares kernels that take any pattern on one kind of device; `$plan` makes the steps.
macro_rules! kernels {
    ($op:ty, $walk:expr; $($(#[$meta:meta])* $name:ident, $label:literal, $fits:path, $plan:path;)*) => {$(
        $(#[$meta])*
        struct $name;

        impl Kernel for $name {
            type Op = $op;

            fn name(&self) -> &'static str {
                $label
            }

            fn fits(&self, _op: &$op, _io: &Io<'_>, on: &DeviceInfo) -> Result<Cost, Decline> {
                $fits(on)
            }

            fn plan(&self, op: &$op, io: &Io<'_>, on: &DeviceInfo) -> Plan {
                let walk: fn(&$op, &Io<'_>) -> Walk = $walk;
                $plan(&walk(op, io), io.input(0).dtype, on)
            }
        }
    )*};
}
pub(crate) use kernels;

kernels! {
    StridedCopy, |op, _| op.walk();
    /// Any pattern, on the CPU.
    Native, "strided_copy.strided.cpu", fits_cpu, cpu::plan;
    /// Any pattern, on GPUs.
    Wgsl, "strided_copy.strided.wgsl", fits_gpu, gpu::plan;
}

impl Walk {
    /// The one step of a dense walk, over elements of `size` bytes.
    pub(crate) fn copy(&self, size: usize) -> Plan {
        let bytes = self.elements() * size;
        let mut plan = Plan::default();
        let from = Arg::slot(0).window(self.from * size, bytes);
        plan.steps.push(Step::Copy { from, to: Arg::slot(1).window(self.to * size, bytes) });
        plan
    }
}

/// A dense tensor of `shape`, taken from `x` by a layout.
pub fn strided_copy<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    shape: Shape,
    from: Layout,
) -> Result<R::Value> {
    recorder.run_one(StridedCopy { shape, from, to: None }, &[x])
}
