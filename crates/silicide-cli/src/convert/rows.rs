//! Rows of any stored tensor as f32, in the order in which they are written.

use super::plan::Step;
use crate::error::Error;
use silicide_quant::{DType, decode_into};
use silicide_weights::{QuantizedWeight, Source, Stored};
use std::borrow::Cow;

/// The rows of a tensor.
pub(super) struct Rows<'a> {
    data: Data<'a>,
    width: usize,
    height: usize,
    heads: Option<usize>,
}

enum Data<'a> {
    Plain(DType, Cow<'a, [u8]>),
    Planes(QuantizedWeight<'a>),
}

impl<'a> Rows<'a> {
    pub(super) fn new(source: &'a Source, step: &Step<'_>) -> Result<Rows<'a>, Error> {
        let data = match step.entry.stored() {
            Stored::Mlx(_) => Data::Planes(source.quantized(&step.entry)?),
            _ => Data::Plain(step.entry.dtype()?, source.data(&step.entry)?),
        };
        // A vector whose elements move is a column.
        let column = step.heads.is_some() && step.shape.rank() == 1;
        let width = if column { 1 } else { step.shape.last() };
        let height = step.shape.elements().checked_div(width).unwrap_or(0);
        Ok(Rows { data, width, height, heads: step.heads })
    }

    /// Elements of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub(super) fn height(&self) -> usize {
        self.height
    }

    /// Reads as many rows as fit `out`.
    pub(super) fn read(&self, first: usize, out: &mut [f32]) -> Result<(), Error> {
        let Some(heads) = self.heads else { return self.decode(first, out) };
        let head = (self.height / heads.max(1)).max(1);
        for (i, row) in out.chunks_mut(self.width.max(1)).enumerate() {
            self.decode(woven(first + i, head), row)?;
        }
        Ok(())
    }

    /// Decodes stored rows.
    fn decode(&self, first: usize, out: &mut [f32]) -> Result<(), Error> {
        match &self.data {
            Data::Plain(dtype, bytes) => {
                let of = |elements: usize| elements / dtype.block_len() * dtype.block_bytes();
                let start = of(first * self.width);
                let bytes = bytes.get(start..start + of(out.len())).unwrap_or_default();
                decode_into(*dtype, bytes, out)?;
            }
            Data::Planes(weight) => weight.decode_from(first * self.width, out)?,
        }
        Ok(())
    }
}

/// The stored row that comes out as row `row`, if halves of heads of `head` rows are woven into pairs: 0, n/2, 1, n/2 + 1...
fn woven(row: usize, head: usize) -> usize {
    let (start, within) = (row / head * head, row % head);
    start + within / 2 + if within.is_multiple_of(2) { 0 } else { head / 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_become_pairs() {
        let order: Vec<usize> = (0..8).map(|row| woven(row, 4)).collect();
        assert_eq!(order, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
