//! Rows of an MLX table by index: the embedding lookup of MLX checkpoints.
//!
//! As in `gather_rows`, an index out of range, negative ones included, never reads outside the table: its row is NaN.

pub mod cases;
mod cpu;
mod gpu;

use crate::dequantize::last_bit;
use crate::elementwise::is_float;
use crate::mlx::{self, MlxOperands};
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, MlxFormat, Shape, encode};

/// The op. Inputs: `packed`, `scales` and, for affine formats, `biases` of a table `[rows, k]`, and `indices` of i32 or
/// u32. Output: `y`, with the axes of `indices`, then that of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MlxGatherRows {
    /// The format of the planes.
    pub format: MlxFormat,
    /// The type of the output: f32, f16 or bf16.
    pub to: DType,
}

impl MlxGatherRows {
    /// NaN, as bits of the output's type.
    fn blank(&self) -> u32 {
        let mut bytes = [0; 4];
        bytes.iter_mut().zip(encode(self.to, &[f64::NAN])).for_each(|(to, from)| *to = from);
        u32::from_le_bytes(bytes)
    }
}

impl Op for MlxGatherRows {
    fn name(&self) -> &'static str {
        "mlx_gather_rows"
    }

    fn slots(&self) -> &'static [Slot] {
        const BIASES: [Slot; 5] = [
            Slot::input("packed"),
            Slot::input("scales"),
            Slot::input("biases"),
            Slot::input("indices"),
            Slot::output("y"),
        ];
        const PLAIN: [Slot; 4] =
            [Slot::input("packed"), Slot::input("scales"), Slot::input("indices"), Slot::output("y")];
        if self.format.has_biases() { &BIASES } else { &PLAIN }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let (op, expected) = ("mlx_gather_rows", mlx::planes(self.format) + 1);
        let Some((indices, planes)) = given.split_last().filter(|_| given.len() == expected) else {
            return Err(Error::ArgumentCount { op, what: "inputs", expected, got: given.len() });
        };
        if !is_float(self.to) {
            let expected = "f32, f16 or bf16".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "y", expected, got: self.to });
        }
        let table = mlx::check(op, self.format, planes)?;
        let [_, row] = table.axes() else {
            let expected = "two axes: rows and their words".to_owned();
            return Err(Error::Shape { op, slot: "packed", expected, got: table });
        };
        if !matches!(indices.dtype, DType::I32 | DType::U32) {
            let expected = "i32 or u32".to_owned();
            return Err(Error::DTypeMismatch { op, slot: "indices", expected, got: indices.dtype });
        }
        if indices.elements() == 0 {
            let expected = "at least one element".to_owned();
            return Err(Error::Shape { op, slot: "indices", expected, got: indices.shape });
        }
        let axes = [indices.shape.axes(), &[*row]].concat();
        let shape = Shape::new(&axes).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(self.to, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some((indices, planes)), [y, ..]) = (inputs.split_last(), outputs) else { return };
        let (table, row) = (mlx::values(self.format, planes), y.shape.last());
        let blank = vec![f64::NAN; row];
        let rows = indices.values.iter().map(|&index| {
            let valid = index >= 0.0 && index < (table.len() / row) as f64;
            let start = if valid { index as usize * row } else { usize::MAX };
            table.get(start..start.saturating_add(row)).unwrap_or(&blank)
        });
        y.values = rows.flatten().copied().collect();
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        last_bit(output.dtype)
    }

    fn work(&self, io: &Io<'_>) -> Work {
        let y = io.output(0);
        let read = (y.elements() as f64 * self.format.bits_per_element() / 8.0) as u64;
        let indices = io.inputs.last().map_or(0, TensorInfo::bytes);
        Work { bytes: read + y.bytes() as u64 + indices as u64, flops: y.elements() as u64 }
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Rows, &gpu::Rows]
    }
}

/// Rows of `table` by `indices`, as `to`: f32, f16 or bf16.
pub fn mlx_gather_rows<R: Recorder>(
    recorder: &mut R,
    table: &MlxOperands<'_, R::Value>,
    indices: &R::Value,
    to: DType,
) -> Result<R::Value> {
    let mut inputs = table.after(None);
    inputs.push(indices);
    recorder.run_one(MlxGatherRows { format: table.format, to }, &inputs)
}

/// [`mlx_gather_rows`] into `y`, which is of type `to`.
pub fn mlx_gather_rows_into<R: Recorder>(
    recorder: &mut R,
    table: &MlxOperands<'_, R::Value>,
    indices: &R::Value,
    to: DType,
    y: &R::Value,
) -> Result<()> {
    let mut inputs = table.after(None);
    inputs.push(indices);
    recorder.run_into(MlxGatherRows { format: table.format, to }, &inputs, &[y])
}
