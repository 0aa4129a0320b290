//! Rows of a table by index: the embedding lookup.
//!
//! An index out of range, negative ones included, never reads outside the table: its row becomes NaN in a float
//! table and zeros in an integer one. Rows of a quantized table come out as floats.

pub mod cases;
mod cpu;
mod decoded;
mod gpu;

use crate::dequantize::last_bit;
use crate::elementwise::is_float;
use crate::weight;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{AsWeight, Error, Recorder, Result};
use silicide_quant::{DType, Encoding, Shape, encode};
use smallvec::SmallVec;

/// The op. Inputs: the planes of the table, whose rows are what its first axis counts, and `indices` of i32 or u32. Output: `y`, with
/// the axes of `indices`, then those of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherRows {
    /// The encoding of the table.
    pub encoding: Encoding,
    /// The type of the output: that of the table, or, where the table is of floats or quantized, f32, f16 or bf16.
    pub to: DType,
}

impl GatherRows {
    /// Returns an element of a row out of range, as bits of the output's type, low word first.
    fn blank(&self) -> [u32; 2] {
        let mut bytes = [0; 8];
        let value = if self.to.is_float() { f64::NAN } else { 0.0 };
        bytes.iter_mut().zip(encode(self.to, &[value])).for_each(|(to, from)| *to = from);
        let bits = u64::from_le_bytes(bytes);
        [bits as u32, (bits >> 32) as u32]
    }
}

/// Elements of a row of the table, which are the last axes of the output.
fn row_elements(op: &GatherRows, io: &Io<'_>) -> usize {
    let indices = io.input(op.encoding.planes());
    io.output(0).elements().checked_div(indices.elements()).unwrap_or(0).max(1)
}

impl Op for GatherRows {
    fn name(&self) -> &'static str {
        "gather_rows"
    }

    fn slots(&self) -> &'static [Slot] {
        const ONE: [Slot; 3] = [Slot::input("table"), Slot::input("indices"), Slot::output("y")];
        const TWO: [Slot; 4] =
            [Slot::input("packed"), Slot::input("scales"), Slot::input("indices"), Slot::output("y")];
        const THREE: [Slot; 5] = [
            Slot::input("packed"),
            Slot::input("scales"),
            Slot::input("biases"),
            Slot::input("indices"),
            Slot::output("y"),
        ];
        match self.encoding.planes() {
            1 => &ONE,
            2 => &TWO,
            _ => &THREE,
        }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, expected) = ("gather_rows", self.encoding.planes() + 1);
        let Some((indices, planes)) = given.split_last().filter(|_| given.len() == expected) else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        let table = weight::check(op, "table", self.encoding, planes)?;
        let (is_same, becomes_float) = match self.encoding {
            Encoding::Element(from) => (from == self.to && !from.is_compressed(), is_float(from)),
            _ => (false, true),
        };
        if !(is_same || becomes_float && is_float(self.to)) {
            if becomes_float {
                let expected = "f32, f16 or bf16".to_owned();
                return Err(Error::DTypeMismatch { op, slot: "y", expected, got: self.to });
            }
            let (expected, got) = (format!("{}, as y", self.to), planes.first().map(|plane| plane.dtype));
            return Err(Error::DTypeMismatch { op, slot: "table", expected, got: got.unwrap_or(self.to) });
        }
        if !matches!(indices.dtype, DType::I32 | DType::U32) {
            let expected = "i32 or u32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "indices", expected, got: indices.dtype });
        }
        if indices.elements() == 0 {
            let expected = "at least one element".to_owned();
            return Err(Error::Shape { op, slot: "indices", expected, got: indices.shape });
        }
        let row = table.axes().get(1..).unwrap_or_default();
        let (is_quantized, is_interleaved) =
            (self.encoding.group_len() > 1, self.encoding.interleaved_rows() > 1);
        if (is_quantized && row.is_empty()) || (is_interleaved && row.len() != 1) {
            let expected =
                if is_interleaved { "two axes: rows and their elements" } else { "two axes at least" };
            return Err(Error::Shape { op, slot: "table", expected: expected.to_owned(), got: table });
        }
        let axes = [indices.shape.axes(), row].concat();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some((indices, planes)), [y, ..]) = (inputs.split_last(), outputs) else { return };
        let table = weight::values(self.encoding, planes);
        let row = y.shape.elements().checked_div(indices.values.len()).unwrap_or(0).max(1);
        let blank = vec![if self.to.is_float() { f64::NAN } else { 0.0 }; row];
        let rows = indices.values.iter().map(|&index| {
            let valid = index >= 0.0 && index < (table.len() / row) as f64;
            let start = if valid { index as usize * row } else { usize::MAX };
            table.get(start..start.saturating_add(row)).filter(|_| valid).unwrap_or(&blank)
        });
        y.values = rows.flatten().copied().collect();
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match self.encoding {
            Encoding::Element(_) => Tolerance::EXACT,
            _ => last_bit(output.dtype),
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let (indices, y) = (io.input(self.encoding.planes()), io.output(0));
        let planes = io.inputs.get(..self.encoding.planes()).unwrap_or_default();
        let rows = planes.first().map_or(1, |plane| plane.shape.axes().first().copied().unwrap_or(1)).max(1);
        let row: usize = planes.iter().map(|plane| plane.bytes() / rows).sum();
        let read = row as u64 * indices.elements() as u64;
        Work { bytes: read + y.bytes() as u64 + indices.bytes() as u64, flops: 0 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuGatherRows, &decoded::CpuDecodeRows, &gpu::GpuGatherRows]
    }
}

/// Records the rows of `table` that `indices` names, as type `to`. The table is a [`Weight`](silicide_core::Weight) or a tensor.
pub fn gather_rows<R: Recorder>(
    recorder: &mut R,
    table: &impl AsWeight<R::Value>,
    indices: &R::Value,
    to: DType,
) -> Result<R::Value> {
    let encoding = table.encoding_in(recorder);
    let inputs: SmallVec<[&R::Value; 4]> = table.as_planes().iter().chain([indices]).collect();
    recorder.run_one(GatherRows { encoding, to }, &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    #[test]
    fn refusals_name_the_argument() {
        use DType::{F32, I8, I32};
        let slot = |table: DType, axes: &[usize], to: DType| {
            let encoding = Encoding::from(table);
            let table = TensorInfo::new(table, Shape::new(axes).unwrap());
            let indices = TensorInfo::new(I32, Shape::new(&[3]).unwrap());
            match (GatherRows { encoding, to }).infer(&[table, indices]) {
                Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
                other => panic!("{other:?}"),
            }
        };
        let blocks = DType::Block(Format::Q8_0);
        assert_eq!(slot(blocks, &[64], F32), "table");
        assert_eq!(slot(blocks, &[4, 64], I8), "y");
        assert_eq!(slot(blocks, &[0, 64], F32), "table");
        assert_eq!(slot(blocks, &[4, 64], blocks), "y");
        assert_eq!(slot(I8, &[4, 64], F32), "table");
    }
}
