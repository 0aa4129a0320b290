//! The parameter words of a row-wise launch on the CPU: the one place that relates words, bindings and bytes.
//!
//! ```text
//! 0 k | 1 rows | 2 per | 3 streaming | 4 x | 5 other | 6 other_rows | 7, 8 columns | 9 y | 10 combined | 11.. formula
//! ```
//!
//! Binding `i` is slot `i` of the op; scratch memory of a split launch comes after them. A tensor is one word: its binding in
//! the low byte, the code of its element type above. `x` is binding 0, so 0 in the place of another tensor means absent.

use super::super::{RowOp, RowWords};
use crate::cpu::element::{code, size};
use crate::cpu::stream;
use silicide_core::kernel::{Io, TensorInfo};
use silicide_quant::DType;
use smallvec::SmallVec;

/// Words before those of the formula.
const WORDS: usize = 11;

/// A tensor of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowTensor {
    /// Its binding.
    pub(super) binding: usize,
    /// The [`code`] of its element type.
    pub(super) code: u32,
}

impl RowTensor {
    fn new(binding: usize, info: &TensorInfo) -> RowTensor {
        RowTensor { binding, code: code(info.dtype) }
    }

    #[inline(always)]
    const fn word(self) -> u32 {
        self.binding as u32 | self.code << 8
    }

    #[inline(always)]
    const fn of_word(word: u32) -> RowTensor {
        RowTensor { binding: (word & 0xff) as usize, code: word >> 8 }
    }

    /// Returns bytes of an element: f32, f16, bf16, or u32 where an op returns indices.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        size(self.code)
    }
}

/// The decoded parameter words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RowHeader {
    /// Elements of a row, at least 1.
    pub(super) k: usize,
    /// Rows.
    pub(super) rows: usize,
    /// Rows per tile where tiles have whole rows; elements of a span where rows are split.
    pub(super) per: usize,
    /// Whether outputs are written past the caches.
    pub(super) streaming: bool,
    /// `x`.
    pub(super) x: RowTensor,
    /// The tensor that is combined with `x`.
    pub(super) other: Option<RowTensor>,
    /// Rows of `other`: row `r` of `x` meets row `r % other_rows`.
    pub(super) other_rows: usize,
    /// One element per column.
    pub(super) columns: [Option<RowTensor>; 2],
    /// `y`: one element per row, or as many as `x`.
    pub(super) y: RowTensor,
    /// Where combined values go.
    pub(super) combined: Option<RowTensor>,
    /// The formula's own.
    pub(super) words: RowWords,
}

impl RowHeader {
    /// Returns the header of a call; `per` is up to the planner.
    pub(super) fn new<O: RowOp>(op: &O, io: &Io<'_>) -> RowHeader {
        let x = io.input(0);
        let k = x.shape.last().max(1);
        let input = |i: usize| RowTensor::new(i, &io.input(i));
        let outputs = io.inputs.len();
        let column = |i: usize| O::ROLES.columns.get(i).and_then(|name| op.slot(name)).map(input);
        let other = op.other();
        RowHeader {
            k,
            rows: x.shape.rows(),
            per: 1,
            streaming: stream::worthwhile(io) != 0,
            x: input(0),
            other: other.map(input),
            other_rows: other.map_or(0, |i| io.input(i).elements() / k),
            columns: [column(0), column(1)],
            y: RowTensor::new(outputs, &io.output(0)),
            combined: op.combined().map(|i| RowTensor::new(i, &io.output(i - outputs))),
            words: op.words(),
        }
    }

    /// Returns the parameter words, `words` of them for the formula.
    pub(super) fn encode(&self, words: usize) -> SmallVec<[u32; 16]> {
        let tensor = |tensor: Option<RowTensor>| tensor.map_or(0, RowTensor::word);
        let [first, second] = self.columns;
        let header: [u32; WORDS] = [
            self.k as u32,
            self.rows as u32,
            self.per as u32,
            u32::from(self.streaming),
            self.x.word(),
            tensor(self.other),
            self.other_rows as u32,
            tensor(first),
            tensor(second),
            self.y.word(),
            tensor(self.combined),
        ];
        header.into_iter().chain(self.words.iter().take(words).map(|word| word.to_bits())).collect()
    }

    /// Reads parameter words; missing ones are 0.
    #[inline(always)]
    pub(super) fn decode(params: &[u32]) -> RowHeader {
        let word = |i: usize| params.get(i).copied().unwrap_or(0);
        let tensor = |i: usize| (word(i) != 0).then(|| RowTensor::of_word(word(i)));
        RowHeader {
            k: word(0) as usize,
            rows: word(1) as usize,
            per: word(2) as usize,
            streaming: word(3) != 0,
            x: RowTensor::of_word(word(4)),
            other: tensor(5),
            other_rows: word(6) as usize,
            columns: [tensor(7), tensor(8)],
            y: RowTensor::of_word(word(9)),
            combined: tensor(10),
            words: std::array::from_fn(|i| f32::from_bits(word(WORDS + i))),
        }
    }

    /// Returns the spans that a row is split in.
    #[inline(always)]
    pub(super) fn spans(&self) -> usize {
        self.k.div_ceil(self.per.max(1))
    }

    /// Returns the bytes of scratch memory that the partial results of a split launch take, of `partial` bytes each.
    pub(super) fn scratch_bytes(&self, partial: usize) -> Option<usize> {
        self.rows.checked_mul(self.spans())?.checked_mul(partial)
    }

    /// Returns the bytes that tiles touch of each tensor's binding from its start on, in the order of bindings. `None` for words
    /// that no plan has. Scratch memory is apart: [`RowHeader::scratch_bytes`].
    ///
    /// This is what a row-wise program needs of its bindings, from parameters alone. A tile of any grid stays inside, because
    /// tiles skip rows and columns past the end.
    pub(super) fn binding_bytes(&self, per_row: bool) -> Option<SmallVec<[usize; 6]>> {
        let inputs = [Some(self.x), self.other].into_iter().chain(self.columns).flatten();
        let outputs = [Some(self.y), self.combined].into_iter().flatten();
        let first_output = outputs.clone().map(|output| output.binding).min();
        let mut bindings = 0u32;
        for tensor in inputs.clone().chain(outputs) {
            let bit = 1u32.checked_shl(tensor.binding as u32)?;
            // Two tensors of one binding would have one need, and one of them another type or other rows.
            if bindings & bit != 0 {
                return None;
            }
            bindings |= bit;
        }
        // Outputs come after inputs, and combined values need something to be combined with.
        if inputs.map(|input| input.binding).max() >= first_output
            || (self.combined.is_some() && self.other.is_none())
            || (self.other.is_some() && self.other_rows == 0)
            || self.k == 0
            || self.per == 0
        {
            return None;
        }
        let elements = self.rows.checked_mul(self.k)?;
        let mut needs: SmallVec<[usize; 6]> = SmallVec::new();
        let mut add = |tensor: Option<RowTensor>, elements: usize| -> Option<()> {
            let Some(tensor) = tensor else { return Some(()) };
            needs.resize(needs.len().max(tensor.binding + 1), 0);
            let need = needs.get_mut(tensor.binding)?;
            *need = (*need).max(elements.checked_mul(tensor.size())?);
            Some(())
        };
        add(Some(self.x), elements)?;
        add(self.other, self.other_rows.checked_mul(self.k)?)?;
        self.columns.into_iter().try_for_each(|column| add(column, self.k))?;
        add(Some(self.y), if per_row { self.rows } else { elements })?;
        add(self.combined, elements)?;
        Some(needs)
    }
}

/// The [`code`] of the type of results that are indices.
pub(super) const INDEX: u32 = DType::U32.code();

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer_norm::LayerNorm;
    use crate::reduce::{Reduce, Reduction};
    use crate::rms_norm::RmsNorm;
    use crate::softmax::Softmax;
    use silicide_quant::Shape;

    fn info(dtype: DType, extents: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(extents).unwrap())
    }

    fn agree<O: RowOp>(op: &O, inputs: &[TensorInfo]) {
        let outputs = op.infer(inputs).unwrap();
        let header = RowHeader::new(op, &Io { inputs, outputs: &outputs });
        assert_eq!(RowHeader::decode(&header.encode(O::ROLES.words.len())), header);
        let bytes: Vec<usize> = inputs.iter().chain(&outputs).map(TensorInfo::bytes).collect();
        let needs = header.binding_bytes(O::ROLES.per_row).unwrap();
        assert_eq!(needs.as_slice(), bytes, "{}", op.name());
    }

    #[test]
    fn bytes_of_bindings_are_those_of_the_tensors() {
        let x = info(DType::F16, &[2, 3, 70]);
        let (row, mask) = (info(DType::F32, &[70]), info(DType::F32, &[3, 70]));
        agree(&RmsNorm::new(1e-5, false), &[x]);
        agree(&RmsNorm::with_residual(1e-5, true), &[x, x, row]);
        agree(&LayerNorm { eps: 1e-5, weighted: true, biased: true }, &[x, row, info(DType::F16, &[70])]);
        agree(&LayerNorm { eps: 1e-5, weighted: false, biased: true }, &[x, row]);
        agree(&Softmax { scale: 0.5, masked: true }, &[x, mask]);
        agree(&Reduce { reduction: Reduction::Sum }, &[x]);
        agree(&crate::argmax::Argmax, &[x]);
    }

    #[test]
    fn words_that_no_plan_has_need_nothing_that_can_be_stated() {
        let x = info(DType::F32, &[4, 8]);
        let header = RowHeader::new(&RmsNorm::new(1e-5, false), &Io { inputs: &[x], outputs: &[x] });
        assert!(header.binding_bytes(false).is_some());
        let huge = u32::MAX as usize;
        for wrong in [
            RowHeader { k: 0, ..header },
            RowHeader { per: 0, ..header },
            RowHeader { k: huge, rows: huge, ..header },
            RowHeader { other: Some(header.x), ..header },
            RowHeader { y: header.x, ..header },
            RowHeader { combined: Some(RowTensor { binding: 2, ..header.y }), ..header },
            RowHeader { columns: [Some(RowTensor { binding: 3, ..header.x }), None], ..header },
            RowHeader { columns: [Some(header.x), None], ..header },
            RowHeader { y: RowTensor { binding: 99, ..header.y }, ..header },
        ] {
            assert_eq!(wrong.binding_bytes(false), None);
        }
    }
}
