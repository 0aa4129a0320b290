//! The trait that model code and the op functions are written against.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::Result;
use crate::kernel::{Op, TensorInfo};
use silicide_quant::Shape;
use smallvec::SmallVec;

/// Something that takes ops: a [`CommandEncoder`](crate::CommandEncoder) records them to be run.
pub trait Recorder {
    /// The handle of a tensor while recording.
    type Value: Clone;
    /// The device that ops are recorded for.
    fn device(&self) -> &Device;
    /// A value for a buffer that exists.
    fn constant(&mut self, buffer: &Buffer) -> Self::Value;
    /// The type and the shape of a value.
    fn info(&self, value: &Self::Value) -> TensorInfo;
    /// The same elements with another shape of as many: a view, nothing is recorded.
    fn reshape(&mut self, value: &Self::Value, shape: Shape) -> Result<Self::Value>;
    /// Records an op; its outputs are new values.
    fn run<O: Op>(&mut self, op: O, inputs: &[&Self::Value]) -> Result<SmallVec<[Self::Value; 2]>>;
    /// Records an op that writes to values that exist.
    fn run_into<O: Op>(&mut self, op: O, inputs: &[&Self::Value], outputs: &[&Self::Value]) -> Result<()>;
    /// Everything recorded by `f` belongs to a named scope, in times and traces.
    fn scope<T>(&mut self, label: &'static str, f: impl FnOnce(&mut Self) -> T) -> T;

    /// Records an op with one output.
    fn run_one<O: Op>(&mut self, op: O, inputs: &[&Self::Value]) -> Result<Self::Value> {
        let name = op.name();
        let mut outputs = self.run(op, inputs)?;
        let count = outputs.len();
        outputs.pop().filter(|_| count == 1).ok_or(crate::Error::ArgumentCount {
            op: name,
            what: "outputs",
            expected: 1,
            got: count,
        })
    }
}
