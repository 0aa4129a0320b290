//! Interleaving weights: the same bytes, with those of sixteen rows side by side, so that the CPU reads a vector of outputs as one stream
//! and moves nothing between lanes. The size stays the same.
//!
//! Rows are taken sixteen at a time. Elements of f32, f16 and bf16: the first of all sixteen rows, the second, and so on; rows of a matrix after
//! the last whole set of sixteen, as vocabularies have them, stay in place. Blocks, whose matrices are whole sets: for each
//! block in turn, bytes of it that fill no word of four come first, row by row: the leading one or two of most formats whose
//! blocks are no whole words, the last two of others. Then come the words: the first of all sixteen rows, the second, and so on.
//! Weights are bytes here, so that no other op can mistake them for what they were.
//!
//! Affine codes of MLX are interleaved plane by plane, as elements: words of codes, in which codes are [rearranged](CodeOrder), scales and
//! biases.

pub mod cases;
mod cpu;

use crate::elementwise::inputs;
use crate::mlx;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance};
use silicide_core::{Error, Recorder, Result};
use silicide_gemm::q8;
pub(crate) use silicide_gemm::q8::{CodeOrder, InterleavedBlock};
use silicide_quant::{DType, Encoding, RowEncoding, Shape};

/// Rows that are interleaved.
pub const TOGETHER: usize = q8::INTERLEAVE;

/// The version of all interleaved layouts. Files of interleaved weights have it: a change of any layout makes it a new number.
pub const LAYOUT: u32 = 1;

/// The op. Input: `x`, the bytes of a plane, `[..., n, bytes of a row]`. Output: `y`, as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// The encoding of the rows: elements of f32, f16 or bf16, blocks, or affine codes of 4 or 8 bits in planes.
    pub of: RowEncoding,
    /// The plane: 0 of a weight in one plane.
    pub plane: usize,
}

/// Whether weights can be interleaved: `rows` of them, of `elements` each.
pub fn interleaves(of: impl Into<RowEncoding>, rows: usize, elements: usize) -> bool {
    let of = of.into();
    let encoding = Encoding::Interleaved { of, rows: TOGETHER };
    let is_whole = encoding.takes_rows(rows) && elements.is_multiple_of(of.group_len());
    is_whole && rows >= TOGETHER && elements > 0 && InterleavedGroup::of(of, 0).is_some()
}

/// Where the bytes of sixteen rows of a plane go that are interleaved together: an element of each, or a block.
#[derive(Clone, Copy)]
pub(crate) enum InterleavedGroup {
    /// Elements of a type.
    Element(DType),
    /// Blocks of a format.
    Block(InterleavedBlock),
}

impl InterleavedGroup {
    /// Of a plane of an encoding, if it can be interleaved.
    #[inline]
    pub(crate) fn of(of: RowEncoding, plane: usize) -> Option<InterleavedGroup> {
        match (of, plane) {
            (RowEncoding::Element(dtype @ (DType::F32 | DType::F16 | DType::BF16)), 0) => {
                Some(InterleavedGroup::Element(dtype))
            }
            (RowEncoding::Block(format), 0) => InterleavedBlock::of(format).map(InterleavedGroup::Block),
            (RowEncoding::Planes(format), 0..3) if CodeOrder::of(format).is_some() => {
                let dtype = if plane == 0 { DType::U32 } else { format.scale_dtype() };
                Some(InterleavedGroup::Element(dtype))
            }
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

    /// Copies the element or the block of row `row` from those of sixteen rows.
    #[inline(always)]
    pub(crate) fn copy_row(self, row: usize, from: &[u8], to: &mut [u8]) {
        match self {
            InterleavedGroup::Element(dtype) => {
                for (to, from) in to.iter_mut().zip(from.iter().skip(row * dtype.size())) {
                    *to = *from;
                }
            }
            InterleavedGroup::Block(block) => block.copy_row(row, from, to),
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
pub(crate) fn interleaved_values(of: RowEncoding, planes: &[Host]) -> Vec<f64> {
    let plain = |plane: usize, weights: &Host| -> Vec<u8> {
        let from = places(Interleave { of, plane }, &weights.shape).map(|place| weights.values[place] as u8);
        map_words(Interleave { of, plane }, from.collect(), CodeOrder::plain)
    };
    match (of, planes) {
        (RowEncoding::Planes(format), planes) => {
            let plain = |(i, host): (usize, &Host)| Host {
                dtype: DType::U8,
                shape: host.shape,
                values: plain(i, host).into_iter().map(f64::from).collect(),
            };
            mlx::values(format, &planes.iter().enumerate().map(plain).collect::<Vec<_>>())
        }
        (_, [weights]) => {
            plain_dtype(of).map_or_else(Vec::new, |dtype| silicide_quant::decode(dtype, &plain(0, weights)))
        }
        _ => Vec::new(),
    }
}

/// Returns the bytes of a plane with `change` applied to words of codes; the bytes as they are, if the plane has none. For references.
fn map_words(op: Interleave, mut bytes: Vec<u8>, change: impl Fn(CodeOrder, u32) -> u32) -> Vec<u8> {
    if let (RowEncoding::Planes(format), 0) = (op.of, op.plane)
        && let Some(order) = CodeOrder::of(format)
    {
        for word in bytes.as_chunks_mut().0 {
            *word = change(order, u32::from_le_bytes(*word)).to_le_bytes();
        }
    }
    bytes
}

/// Returns where each byte of a plane goes, for references: a plane of `shape`, `[..., n, bytes of a row]`.
fn places(op: Interleave, shape: &Shape) -> impl Iterator<Item = usize> {
    let (n, row_bytes) = (shape.axes().iter().rev().nth(1).copied().unwrap_or(1), shape.last());
    let (sets, group) = (n / TOGETHER, InterleavedGroup::of(op.of, op.plane));
    (0..shape.elements()).map(move |i| {
        let (row, byte) = (i / row_bytes, i % row_bytes);
        let (matrix, row) = (row / n, row % n);
        match group {
            Some(group) if row / TOGETHER < sets => {
                let first = (matrix * n + row / TOGETHER * TOGETHER) * row_bytes;
                let (index, at) = (byte / group.bytes(), byte % group.bytes());
                first + index * TOGETHER * group.bytes() + group.place(row % TOGETHER, at)
            }
            _ => i,
        }
    })
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
        let group = InterleavedGroup::of(of, self.plane).map_or(0, InterleavedGroup::bytes);
        let groups = x.shape.last().checked_div(group).unwrap_or(0);
        let elements = match (of, self.plane) {
            // A group is a word of codes, or a scale.
            (RowEncoding::Planes(format), 0) => groups.saturating_mul(32) / format.bits(),
            _ => groups.saturating_mul(of.group_len()),
        };
        let rows = x.shape.axes().iter().rev().nth(1).copied().unwrap_or(1);
        if !x.shape.last().is_multiple_of(group.max(1)) || !interleaves(of, rows, elements) {
            let expected = format!(
                "{TOGETHER} rows or more of {of}, if it can be interleaved; a multiple of {TOGETHER} of blocks"
            );
            return Err(Error::Shape { op, slot, expected, got: x.shape });
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::U8, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let (Some(x), [y, ..]) = (inputs.first(), outputs) else { return };
        let x_bytes = x.values.iter().map(|byte| *byte as u8).collect();
        let bytes = map_words(*self, x_bytes, CodeOrder::interleaved);
        for (byte, place) in bytes.into_iter().zip(places(*self, &x.shape)) {
            y.values[place] = f64::from(byte);
        }
    }

    fn tolerance(&self, _: &Io<'_>, _: &TensorInfo) -> Tolerance {
        Tolerance::EXACT
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::InterleaveWords]
    }
}

/// Interleaves the bytes of weights in one plane, `[..., n, bytes of a row]`.
pub fn interleave<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    of: impl Into<RowEncoding>,
) -> Result<R::Value> {
    recorder.run_one(Interleave { of: of.into(), plane: 0 }, &[x])
}

/// [`interleave`] into `y`, of as many bytes.
pub fn interleave_into<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    of: impl Into<RowEncoding>,
    y: &R::Value,
) -> Result<()> {
    recorder.run_into(Interleave { of: of.into(), plane: 0 }, &[x], &[y])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::{Format, MlxFormat, MlxMode};

    #[test]
    fn refusals_name_the_accepted_shapes() {
        let infer = |dtype, axes: &[usize], of| {
            Interleave { of, plane: 0 }.infer(&[TensorInfo::new(dtype, Shape::new(axes).unwrap())])
        };
        let (q4_0, f16) = (RowEncoding::Block(Format::Q4_0), RowEncoding::Element(DType::F16));
        for of in [q4_0, f16] {
            assert!(infer(DType::U8, &[32, 36], of).is_ok());
            assert!(infer(DType::U8, &[3, 32, 36], of).is_ok());
            assert!(matches!(infer(DType::F32, &[32, 36], of), Err(Error::DTypeMismatch { .. })));
            for axes in [&[15, 36][..], &[32, 35], &[36]] {
                assert!(matches!(infer(DType::U8, axes, of), Err(Error::Shape { .. })), "{axes:?}");
            }
        }
        assert!(matches!(infer(DType::U8, &[31, 36], q4_0), Err(Error::Shape { .. })));
        assert!(infer(DType::U8, &[31, 36], f16).is_ok());
        for of in [RowEncoding::Block(Format::Iq3Xxs), RowEncoding::Element(DType::I32)] {
            assert!(matches!(infer(DType::U8, &[32, 98], of), Err(Error::Shape { .. })));
        }
        let format = MlxFormat::new(MlxMode::Affine, 4, 64, DType::BF16).unwrap();
        let plane = |plane, axes: &[usize]| {
            let x = TensorInfo::new(DType::U8, Shape::new(axes).unwrap());
            Interleave { of: RowEncoding::Planes(format), plane }.infer(&[x]).is_ok()
        };
        assert!(plane(0, &[32, 64]) && plane(1, &[32, 4]) && plane(2, &[3, 16, 2]));
        assert!(!plane(0, &[32, 16]), "half of a group");
        assert!(!plane(1, &[32, 3]), "half of a scale");
        assert!(!plane(0, &[31, 64]) && !plane(3, &[32, 4]));
    }
}
