//! Interleaving weights: the same blocks, with those of sixteen columns side by side, so that the CPU reads a vector of columns as one
//! stream and moves nothing between lanes. The size stays the same; [`interleaved_matmul`](crate::interleaved_matmul)
//! multiplies with the result.
//!
//! Columns are taken sixteen at a time. For each of their blocks in turn, bytes of it that fill no word of four come first, column by
//! column: the leading one or two of most formats whose blocks are no whole words, the last two of others. Then come the words:
//! the first of all sixteen columns, the second, and so on. Weights are bytes here, so that no other op can mistake them for what
//! they were.

pub mod cases;
mod cpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Error, Recorder, Result};
use silicide_gemm::q8;
pub(crate) use silicide_gemm::q8::InterleavedBlock;
use silicide_quant::{DType, Format};

/// Columns that are interleaved.
pub const TOGETHER: usize = q8::INTERLEAVE;

/// The op. Input: `x`, the bytes of blocks, `[..., n, bytes of a column]`. Output: `y`, as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// The format of the blocks.
    pub format: Format,
}

/// Whether weights of a format can be interleaved: so many columns of so many elements.
pub fn interleaves(format: Format, columns: usize, elements: usize) -> bool {
    let whole = columns.is_multiple_of(TOGETHER) && elements.is_multiple_of(format.block_len());
    whole && columns > 0 && elements > 0 && InterleavedBlock::of(format).is_some()
}

/// The numbers that interleaved weights stand for, for references.
pub(crate) fn interleaved_values(format: Format, weights: &Host) -> Vec<f64> {
    let bytes: Vec<u8> = weights.values.iter().map(|byte| *byte as u8).collect();
    silicide_quant::decode(DType::Block(format), &separate(format, weights.shape.last(), &bytes))
}

/// Takes interleaved bytes of columns of so many bytes apart.
fn separate(format: Format, column_bytes: usize, bytes: &[u8]) -> Vec<u8> {
    let mut plain = vec![0; bytes.len()];
    let Some(parts) = InterleavedBlock::of(format) else { return plain };
    let all =
        bytes.chunks_exact(TOGETHER * column_bytes).zip(plain.chunks_exact_mut(TOGETHER * column_bytes));
    for (from, to) in all {
        for (column, to) in to.chunks_exact_mut(column_bytes).enumerate() {
            for (block, to) in to.chunks_exact_mut(parts.bytes()).enumerate() {
                for (at, to) in to.iter_mut().enumerate() {
                    *to = from[block * TOGETHER * parts.bytes() + parts.place(column, at)];
                }
            }
        }
    }
    plain
}

impl Op for Interleave {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [x] = inputs("interleave", self.slots(), given)?;
        let (op, slot, format) = ("interleave", "x", self.format);
        if x.dtype != DType::U8 {
            return Err(Error::DTypeMismatch {
                op,
                slot,
                expected: "u8: the bytes of blocks".to_owned(),
                got: x.dtype,
            });
        }
        let elements = x.shape.last() / format.block_bytes() * format.block_len();
        let columns = x.shape.axes().iter().rev().nth(1).copied().unwrap_or(1);
        let whole = x.shape.last().is_multiple_of(format.block_bytes());
        if !whole || !interleaves(format, columns, elements) {
            let expected = format!(
                "a multiple of {TOGETHER} columns of whole blocks of a format that can be interleaved, {format}"
            );
            return Err(Error::Shape { op, slot, expected, got: x.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U8, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..], Some(parts)) = (inputs.first(), outputs, InterleavedBlock::of(self.format))
        else {
            return;
        };
        let bytes = x.shape.last();
        let all = x.values.chunks_exact(TOGETHER * bytes).zip(y.values.chunks_exact_mut(TOGETHER * bytes));
        for (from, to) in all {
            for (column, from) in from.chunks_exact(bytes).enumerate() {
                for (i, from) in from.iter().enumerate() {
                    let (block, at) = (i / parts.bytes(), i % parts.bytes());
                    to[block * TOGETHER * parts.bytes() + parts.place(column, at)] = *from;
                }
            }
        }
    }

    fn tolerance(&self, _: &Io<'_>, _: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Words]
    }
}

/// Interleaves the bytes of weights, `[..., n, bytes of a column]`.
pub fn interleave<R: Recorder>(recorder: &mut R, x: &R::Value, format: Format) -> Result<R::Value> {
    recorder.run_one(Interleave { format }, &[x])
}

/// [`interleave`] into `y`, of as many bytes.
pub fn interleave_into<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    format: Format,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(Interleave { format }, &[x], &[y])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_would_do() {
        let infer = |dtype, axes: &[usize], format| {
            Interleave { format }.infer(&[TensorInfo::new(dtype, silicide_quant::Shape::new(axes).unwrap())])
        };
        assert!(infer(DType::U8, &[32, 36], Format::Q4_0).is_ok());
        assert!(infer(DType::U8, &[3, 32, 36], Format::Q4_0).is_ok());
        assert!(matches!(infer(DType::F32, &[32, 36], Format::Q4_0), Err(Error::DTypeMismatch { .. })));
        for axes in [&[31, 36][..], &[32, 35], &[36]] {
            assert!(matches!(infer(DType::U8, axes, Format::Q4_0), Err(Error::Shape { .. })), "{axes:?}");
        }
        assert!(matches!(infer(DType::U8, &[32, 98], Format::Iq3Xxs), Err(Error::Shape { .. })));
    }
}
