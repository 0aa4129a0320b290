//! Interleaving weights: the same bytes, with those of sixteen rows side by side, so that the CPU reads a vector of outputs as one stream
//! and moves nothing between lanes. The size stays the same.
//!
//! Rows are taken sixteen at a time. Elements of f32, f16 and bf16: the first of all sixteen rows, the second, and so on. Blocks: for each
//! block in turn, bytes of it that fill no word of four come first, row by row: the leading one or two of most formats whose
//! blocks are no whole words, the last two of others. Then come the words: the first of all sixteen rows, the second, and so on.
//! Weights are bytes here, so that no other op can mistake them for what they were.

pub mod cases;
mod cpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Error, Recorder, Result};
use silicide_gemm::q8;
pub(crate) use silicide_gemm::q8::InterleavedBlock;
use silicide_quant::{DType, RowEncoding};

/// Rows that are interleaved.
pub const TOGETHER: usize = q8::INTERLEAVE;

/// The op. Input: `x`, the bytes of elements or blocks, `[..., n, bytes of a row]`. Output: `y`, as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// The encoding of the rows: elements of f32, f16 or bf16, or blocks.
    pub of: RowEncoding,
}

/// Whether weights can be interleaved: `rows` of them, of `elements` each.
pub fn interleaves(of: impl Into<RowEncoding>, rows: usize, elements: usize) -> bool {
    let of = of.into();
    let is_whole = rows.is_multiple_of(TOGETHER) && elements.is_multiple_of(of.group_len());
    is_whole && rows > 0 && elements > 0 && InterleavedGroup::of(of).is_some()
}

/// Where the bytes of sixteen rows go that are interleaved together: an element of each, or a block.
#[derive(Clone, Copy)]
pub(crate) enum InterleavedGroup {
    /// Elements of a type.
    Element(DType),
    /// Blocks of a format.
    Block(InterleavedBlock),
}

impl InterleavedGroup {
    /// Of an encoding, if there is one.
    pub(crate) fn of(of: RowEncoding) -> Option<InterleavedGroup> {
        match of {
            RowEncoding::Element(dtype @ (DType::F32 | DType::F16 | DType::BF16)) => {
                Some(InterleavedGroup::Element(dtype))
            }
            RowEncoding::Block(format) => InterleavedBlock::of(format).map(InterleavedGroup::Block),
            _ => None,
        }
    }

    /// Bytes of a row.
    pub(crate) fn bytes(self) -> usize {
        match self {
            InterleavedGroup::Element(dtype) => dtype.size(),
            InterleavedGroup::Block(block) => block.bytes(),
        }
    }

    /// Where byte `at` of row `row` goes.
    pub(crate) fn place(self, row: usize, at: usize) -> usize {
        match self {
            InterleavedGroup::Element(dtype) => row * dtype.size() + at,
            InterleavedGroup::Block(block) => block.place(row, at),
        }
    }
}

/// The type of plain rows of an encoding, unless they are planes.
fn plain_dtype(of: RowEncoding) -> Option<DType> {
    match of {
        RowEncoding::Element(dtype) => Some(dtype),
        RowEncoding::Block(format) => Some(DType::Block(format)),
        _ => None,
    }
}

/// The numbers that interleaved weights stand for, for references.
pub(crate) fn interleaved_values(of: impl Into<RowEncoding>, weights: &Host) -> Vec<f64> {
    let of = of.into();
    let bytes: Vec<u8> = weights.values.iter().map(|byte| *byte as u8).collect();
    let plain = separate(of, weights.shape.last(), &bytes);
    plain_dtype(of).map_or_else(Vec::new, |dtype| silicide_quant::decode(dtype, &plain))
}

/// Takes interleaved bytes of rows of `row_bytes` bytes apart.
fn separate(of: RowEncoding, row_bytes: usize, bytes: &[u8]) -> Vec<u8> {
    let mut plain = vec![0; bytes.len()];
    let Some(group) = InterleavedGroup::of(of) else { return plain };
    let all = bytes.chunks_exact(TOGETHER * row_bytes).zip(plain.chunks_exact_mut(TOGETHER * row_bytes));
    for (from, to) in all {
        for (row, to) in to.chunks_exact_mut(row_bytes).enumerate() {
            for (i, to) in to.chunks_exact_mut(group.bytes()).enumerate() {
                for (at, to) in to.iter_mut().enumerate() {
                    *to = from[i * TOGETHER * group.bytes() + group.place(row, at)];
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
        let (op, slot, of) = ("interleave", "x", self.of);
        if x.dtype != DType::U8 {
            return Err(Error::DTypeMismatch {
                op,
                slot,
                expected: "u8: the bytes of weights".to_owned(),
                got: x.dtype,
            });
        }
        let group = InterleavedGroup::of(of).map_or(0, InterleavedGroup::bytes);
        let elements = x.shape.last().checked_div(group).unwrap_or(0) * of.group_len();
        let rows = x.shape.axes().iter().rev().nth(1).copied().unwrap_or(1);
        if !x.shape.last().is_multiple_of(group.max(1)) || !interleaves(of, rows, elements) {
            let expected = format!(
                "a multiple of {TOGETHER} rows of whole elements or blocks of {of}, if it can be interleaved"
            );
            return Err(Error::Shape { op, slot, expected, got: x.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U8, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..], Some(group)) = (inputs.first(), outputs, InterleavedGroup::of(self.of)) else {
            return;
        };
        let bytes = x.shape.last();
        let all = x.values.chunks_exact(TOGETHER * bytes).zip(y.values.chunks_exact_mut(TOGETHER * bytes));
        for (from, to) in all {
            for (row, from) in from.chunks_exact(bytes).enumerate() {
                for (i, from) in from.iter().enumerate() {
                    let (index, at) = (i / group.bytes(), i % group.bytes());
                    to[index * TOGETHER * group.bytes() + group.place(row, at)] = *from;
                }
            }
        }
    }

    fn tolerance(&self, _: &Io<'_>, _: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::InterleaveWords]
    }
}

/// Interleaves the bytes of weights, `[..., n, bytes of a row]`.
pub fn interleave<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    of: impl Into<RowEncoding>,
) -> Result<R::Value> {
    recorder.run_one(Interleave { of: of.into() }, &[x])
}

/// [`interleave`] into `y`, of as many bytes.
pub fn interleave_into<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    of: impl Into<RowEncoding>,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(Interleave { of: of.into() }, &[x], &[y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Format;

    #[test]
    fn refusals_say_what_would_do() {
        let infer = |dtype, axes: &[usize], of| {
            Interleave { of }.infer(&[TensorInfo::new(dtype, silicide_quant::Shape::new(axes).unwrap())])
        };
        let (q4_0, f16) = (RowEncoding::Block(Format::Q4_0), RowEncoding::Element(DType::F16));
        for of in [q4_0, f16] {
            assert!(infer(DType::U8, &[32, 36], of).is_ok());
            assert!(infer(DType::U8, &[3, 32, 36], of).is_ok());
            assert!(matches!(infer(DType::F32, &[32, 36], of), Err(Error::DTypeMismatch { .. })));
            for axes in [&[31, 36][..], &[32, 35], &[36]] {
                assert!(matches!(infer(DType::U8, axes, of), Err(Error::Shape { .. })), "{axes:?}");
            }
        }
        for of in [RowEncoding::Block(Format::Iq3Xxs), RowEncoding::Element(DType::I32)] {
            assert!(matches!(infer(DType::U8, &[32, 98], of), Err(Error::Shape { .. })));
        }
    }
}
