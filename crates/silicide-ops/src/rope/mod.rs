//! Rotary position embedding: pairs of elements of each head are turned by an angle that grows with the position.
//!
//! Angles come as a table of cosines and sines, one row per token, so that every way of scaling them is the business
//! of the host ([`Frequencies`]) and exact at any position. Elements past the turned ones stay as they are.

pub mod cases;
mod cpu;
mod frequencies;
mod gpu;

pub use frequencies::{Frequencies, FrequencyError};

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// Which elements make a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeStyle {
    /// Neighbours: elements `2 i` and `2 i + 1`.
    Interleaved,
    /// Elements `i` and `i + rotated / 2`.
    Halves,
}

impl RopeStyle {
    /// Where the first element of a pair is, and how far the second is from it.
    fn pair(self, i: usize, pairs: usize) -> (usize, usize) {
        match self {
            RopeStyle::Interleaved => (2 * i, 1),
            RopeStyle::Halves => (i, pairs),
        }
    }
}

/// The op. Inputs: `x` of f32 `[tokens, heads, dim]`, and `table` of f32 `[tokens, rotated / 2, 2]`, the cosine and sine
/// of each pair's angle. Output: `y`, like `x`, which it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rope {
    /// Which elements make a pair.
    pub style: RopeStyle,
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct RopeExtents {
    tokens: usize,
    heads: usize,
    dim: usize,
    pairs: usize,
}

impl RopeExtents {
    fn of(io: &Io<'_>) -> Option<RopeExtents> {
        match (io.input(0).shape.axes(), io.input(1).shape.axes()) {
            (&[tokens, heads, dim], &[_, pairs, 2]) => Some(RopeExtents { tokens, heads, dim, pairs }),
            _ => None,
        }
    }
}

impl Op for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::input("table"), Slot::output_over("y", 0b1)] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "rope";
        let [x, table] = inputs(op, self.slots(), given)?;
        for (slot, info) in [("x", x), ("table", table)] {
            if info.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: info.dtype });
            }
        }
        let &[tokens, _, dim] = x.shape.axes() else {
            let expected = "[tokens, heads, dim]".to_owned();
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        };
        match table.shape.axes() {
            &[rows, pairs, 2] if rows == tokens && pairs <= dim / 2 => {}
            _ => {
                let expected = format!("[{tokens}, at most {}, 2]", dim / 2);
                return Err(Error::Shape { op, slot: "table", expected, got: table.shape });
            }
        }
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, x.shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, table, ..], [y, ..]) = (inputs, outputs) else { return };
        let (&[_, heads, dim], &[_, pairs, _]) = (x.shape.axes(), table.shape.axes()) else { return };
        y.values.clone_from(&x.values);
        for (row, y) in y.values.chunks_exact_mut(dim).enumerate() {
            let turns = table.values.chunks_exact(2).skip(row / heads * pairs);
            for (i, turn) in turns.take(pairs).enumerate() {
                let (first, apart) = self.style.pair(i, pairs);
                let (a, b) = (y[first], y[first + apart]);
                y[first] = a * turn[0] - b * turn[1];
                y[first + apart] = b * turn[0] + a * turn[1];
            }
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 3)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuRope, &gpu::GpuRope]
    }
}

/// Turns the pairs of each head of `x`, `[tokens, heads, dim]`, by the angles of `table`, `[tokens, rotated / 2, 2]`.
pub fn rope<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    table: &R::Value,
    style: RopeStyle,
) -> Result<R::Value> {
    recorder.run_one(Rope { style }, &[x, table])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;

    fn info(extents: &[usize]) -> TensorInfo {
        TensorInfo::new(DType::F32, Shape::new(extents).unwrap())
    }

    #[test]
    fn tables_must_fit_the_heads() {
        let rope = Rope { style: RopeStyle::Halves };
        let infer = |x: &[usize], table: &[usize]| rope.infer(&[info(x), info(table)]);
        assert_eq!(infer(&[3, 2, 8], &[3, 4, 2]).unwrap()[0], info(&[3, 2, 8]));
        assert!(infer(&[3, 2, 8], &[3, 1, 2]).is_ok());
        let message = infer(&[3, 2, 8], &[3, 5, 2]).unwrap_err().to_string();
        assert_eq!(message, "rope: table has shape [3, 5, 2], expected [3, at most 4, 2]");
        assert!(infer(&[3, 2, 8], &[2, 4, 2]).is_err());
        assert!(infer(&[3, 2, 8], &[3, 4]).is_err());
        assert!(infer(&[6, 8], &[6, 4, 2]).is_err());
    }
}
