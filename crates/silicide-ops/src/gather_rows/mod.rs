//! Rows of a table by index: the embedding lookup.
//!
//! An index out of range, negative ones included, never reads outside the table: its row becomes NaN in a float
//! table and zeros in an integer one. Rows of a block format come out as floats.

pub mod cases;
mod cpu;
pub(crate) mod gpu;

use crate::dequantize::last_bit;
use crate::elementwise::{inputs, is_float};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape, encode};

/// The op. Inputs: `table`, whose rows are what its first axis counts, and `indices` of i32 or u32. Output: `y`, with
/// the axes of `indices`, then those of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherRows {
    /// The type of the output: that of the table, or, where the table is of f32, f16, bf16 or a block format, any of
    /// these three.
    pub to: DType,
}

impl GatherRows {
    /// What an element of a row out of range is, as bits of the output's type, low word first.
    fn blank(&self) -> [u32; 2] {
        let mut bytes = [0; 8];
        let value = if self.to.is_float() { f64::NAN } else { 0.0 };
        bytes.iter_mut().zip(encode(self.to, &[value])).for_each(|(to, from)| *to = from);
        let bits = u64::from_le_bytes(bytes);
        [bits as u32, (bits >> 32) as u32]
    }
}

/// Elements of a row of the table.
fn row_elements(table: &Shape) -> usize {
    table.axes().get(1..).unwrap_or(&[]).iter().product()
}

impl Op for GatherRows {
    fn name(&self) -> &'static str {
        "gather_rows"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("table"), Slot::input("indices"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "gather_rows";
        let [table, indices] = inputs(op, self.slots(), given)?;
        let becomes_float = is_float(table.dtype) || table.dtype.is_block();
        if (table.dtype != self.to || self.to.is_block()) && !(becomes_float && is_float(self.to)) {
            if self.to.is_block() {
                let expected = "f32, f16 or bf16".to_owned();
                return Err(Error::DTypeMismatch { op, slot: "y", expected, got: self.to });
            }
            let expected = format!("{}, or one that becomes it while gathering", self.to);
            return Err(Error::DTypeMismatch { op, slot: "table", expected, got: table.dtype });
        }
        if !matches!(indices.dtype, DType::I32 | DType::U32) {
            let expected = "i32 or u32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "indices", expected, got: indices.dtype });
        }
        let Some((_, row)) = table.shape.axes().split_first() else {
            let expected = "at least one axis, which counts the rows".to_owned();
            return Err(Error::Shape { op, slot: "table", expected, got: table.shape });
        };
        if row.is_empty() && table.dtype.is_block() {
            let expected = "two axes at least, as a row is whole blocks".to_owned();
            return Err(Error::Shape { op, slot: "table", expected, got: table.shape });
        }
        let axes = [indices.shape.axes(), row].concat();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([table, indices, ..], [y, ..]) = (inputs, outputs) else { return };
        let row = row_elements(&table.shape).max(1);
        let blank = vec![if self.to.is_float() { f64::NAN } else { 0.0 }; row];
        let rows = indices.values.iter().map(|&index| {
            let valid = index >= 0.0 && index < (table.values.len() / row) as f64;
            let start = if valid { index as usize * row } else { usize::MAX };
            table.values.get(start..start.saturating_add(row)).filter(|_| valid).unwrap_or(&blank)
        });
        y.values = rows.flatten().copied().collect();
    }

    fn tolerance(&self, io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        if io.input(0).dtype.is_block() { last_bit(output.dtype) } else { Tolerance::EXACT }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let (table, y) = (io.input(0), io.output(0));
        let read = (y.elements() / table.dtype.block_len()) as u64 * table.dtype.block_bytes() as u64;
        Work { bytes: read + y.bytes() as u64 + io.input(1).bytes() as u64, flops: 0 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Rows, &gpu::Rows]
    }
}

/// Rows of `table` by `indices`, as type `to`.
pub fn gather_rows<R: Recorder>(
    recorder: &mut R,
    table: &R::Value,
    indices: &R::Value,
    to: DType,
) -> Result<R::Value> {
    recorder.run_one(GatherRows { to }, &[table, indices])
}

/// [`gather_rows`] into `y`, which is of type `to`.
pub fn gather_rows_into<R: Recorder>(
    recorder: &mut R,
    (table, indices): (&R::Value, &R::Value),
    to: DType,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(GatherRows { to }, &[table, indices], &[y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    #[test]
    fn refusals_name_the_argument() {
        use DType::{F32, I8, I32};
        let slot = |table: DType, axes: &[usize], to: DType| {
            let table = TensorInfo::new(table, Shape::new(axes).unwrap());
            let indices = TensorInfo::new(I32, Shape::new(&[3]).unwrap());
            match (GatherRows { to }).infer(&[table, indices]) {
                Err(Error::Shape { slot, .. } | Error::DTypeMismatch { slot, .. }) => slot,
                other => panic!("{other:?}"),
            }
        };
        let blocks = DType::Block(Format::Q8_0);
        assert_eq!(slot(blocks, &[64], F32), "table");
        assert_eq!(slot(blocks, &[4, 64], I8), "table");
        assert_eq!(slot(blocks, &[4, 64], blocks), "y");
        assert_eq!(slot(I8, &[4, 64], F32), "table");
    }
}
