//! Axes in another order: the transpose and its generalisations. Bits are moved as they are, by the kernels of
//! [`strided_copy`].

pub mod cases;

use crate::elementwise::{check_plain, fits_cpu, fits_gpu, inputs};
use crate::strided_copy::{self, Layout, Walk};
use silicide_core::kernel::{
    Cost, Decline, Host, Io, Kernel, Op, Outputs, Plan, Slot, TensorInfo, Tolerance, Work,
};
use silicide_core::{Error, Recorder, Result};
use silicide_hal::DeviceInfo;
use silicide_quant::{MAX_RANK, Shape};
use smallvec::SmallVec;

/// The op. Input: `x` of any type. Output: `y`, whose axis `k` is axis `order[k]` of `x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Permute {
    /// Every axis of `x` once.
    pub order: SmallVec<[usize; MAX_RANK]>,
}

impl Permute {
    /// The shape of the output and where its elements lie in the input; none if `order` is not an order of the axes.
    fn result(&self, x: &Shape) -> Option<(Shape, Layout)> {
        let dense = Layout::dense(x);
        let mut seen = [false; MAX_RANK];
        let (mut extents, mut strides) = (Vec::new(), Vec::new());
        for &axis in &self.order {
            extents.push(*x.axes().get(axis)?);
            strides.push(*dense.strides.get(axis)?);
            if std::mem::replace(seen.get_mut(axis)?, true) {
                return None;
            }
        }
        let shape = Shape::new(&extents).ok().filter(|shape| shape.rank() == x.rank())?;
        Some((shape, Layout::new(0, &strides)))
    }

    fn walk(&self, x: &Shape) -> Walk {
        let (shape, from) = self.result(x).unwrap_or((*x, Layout::dense(x)));
        Walk::new(&shape, &from, &Layout::dense(&shape))
    }
}

impl Op for Permute {
    fn name(&self) -> &'static str {
        "permute"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [x] = inputs("permute", self.slots(), given)?;
        check_plain("permute", "x", x.dtype)?;
        let Some((shape, _)) = self.result(&x.shape) else {
            let what = format!("the order {:?} does not name every axis of {} once", self.order, x.shape);
            return Err(Error::BadParameter { op: "permute", what });
        };
        Ok(Outputs::from_slice(&[TensorInfo::new(x.dtype, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let Some((shape, from)) = self.result(&x.shape) else { return };
        let places = (0..shape.elements()).map(|i| from.at(&shape, i));
        y.values = places.map(|at| x.values.get(at).copied().unwrap_or(f64::NAN)).collect();
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, 0)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&DensePermute, &Native, &Wgsl]
    }
}

/// An order that moves nothing: the device's own copy.
struct DensePermute;

impl Kernel for DensePermute {
    type Op = Permute;

    fn name(&self) -> &'static str {
        "permute.dense"
    }

    fn fits(&self, op: &Permute, io: &Io<'_>, _on: &DeviceInfo) -> Result<Cost, Decline> {
        let dense = op.walk(&io.input(0).shape).is_dense();
        if dense { Ok(Cost::BEST) } else { Err(Decline("takes orders that move nothing only")) }
    }

    fn plan(&self, op: &Permute, io: &Io<'_>, _on: &DeviceInfo) -> Plan {
        op.walk(&io.input(0).shape).copy(io.input(0).dtype.size())
    }
}

strided_copy::kernels! {
    Permute, |op, io| op.walk(&io.input(0).shape);
    /// Any order, on the CPU.
    Native, "permute.strided.cpu", fits_cpu, strided_copy::cpu::plan;
    /// Any order, on GPUs.
    Wgsl, "permute.strided.wgsl", fits_gpu, strided_copy::gpu::plan;
}

/// `x` with its axes in another order: axis `k` of the result is axis `order[k]`.
pub fn permute<R: Recorder>(recorder: &mut R, x: &R::Value, order: &[usize]) -> Result<R::Value> {
    recorder.run_one(Permute { order: SmallVec::from_slice(order) }, &[x])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{DType, Format};

    #[test]
    fn orders_that_are_none_are_refused() {
        let x = TensorInfo::new(DType::U8, Shape::new(&[2, 3, 4]).unwrap());
        let shape =
            |order: &[usize]| Permute { order: SmallVec::from_slice(order) }.infer(&[x]).map(|y| y[0].shape);
        assert_eq!(shape(&[2, 0, 1]).unwrap(), Shape::new(&[4, 2, 3]).unwrap());
        for order in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, 2, 0], &[]] {
            assert!(matches!(shape(order), Err(Error::BadParameter { .. })), "{order:?}");
        }
        let blocks = TensorInfo::new(DType::Block(Format::ALL[0]), Shape::new(&[2, 256]).unwrap());
        let turn = Permute { order: SmallVec::from_slice(&[1, 0]) };
        assert!(matches!(turn.infer(&[blocks]), Err(Error::DTypeMismatch { .. })));
    }
}
