//! Scores within a chunk of a decaying state: below the diagonal, each is multiplied by how much the state decays between its two tokens.
//!
//! ```text
//! y[i][j] = x[i][j] * exp(g[i] - g[j])   for j < i, or j <= i;   0 elsewhere
//! ```
//!
//! `g` has running sums of logarithms of decays, so the exponents are at most 0 where decays are. Elsewhere nothing is multiplied: large
//! exponents and NaN there do not show.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The op. Inputs of f32: `x` `[chunks, groups, n, n]` and `g` `[chunks, heads, n]`. Output: `y` `[chunks, heads, n, n]`; neighbouring heads
/// share a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CausalDecay {
    /// Whether the diagonal is kept.
    pub diagonal: bool,
}

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct DecayExtents {
    chunks: usize,
    groups: usize,
    heads: usize,
    n: usize,
}

impl DecayExtents {
    fn of(io: &Io<'_>) -> Option<DecayExtents> {
        match (io.input(0).shape.axes(), io.input(1).shape.axes()) {
            (&[chunks, groups, ..], &[_, heads, n]) => Some(DecayExtents { chunks, groups, heads, n }),
            _ => None,
        }
    }

    /// The extents as parameter words.
    fn words(&self) -> [u32; 4] {
        [self.chunks, self.groups, self.heads, self.n].map(|extent| extent as u32)
    }
}

impl Op for CausalDecay {
    fn name(&self) -> &'static str {
        "causal_decay"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::input("g"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "causal_decay";
        let [x, g] = inputs(op, self.slots(), given)?;
        for (slot, info) in [("x", x), ("g", g)] {
            if info.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: info.dtype });
            }
        }
        let (chunks, groups, n) = match x.shape.axes() {
            &[chunks, groups, n, columns] if n == columns => (chunks, groups, n),
            _ => {
                let expected = "[chunks, groups, n, n]".to_owned();
                return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
            }
        };
        let heads = match g.shape.axes() {
            &[same, heads, rows] if [same, rows] == [chunks, n] && heads.is_multiple_of(groups) => heads,
            _ => {
                let expected = format!("[{chunks}, a multiple of {groups}, {n}]");
                return Err(Error::Shape { op, slot: "g", expected, got: g.shape });
            }
        };
        let shape = Shape::new(&[chunks, heads, n, n]).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, g, ..], [y, ..]) = (inputs, outputs) else { return };
        let (&[_, groups, ..], &[_, heads, n]) = (x.shape.axes(), g.shape.axes()) else { return };
        for (row, y) in y.values.chunks_exact_mut(n).enumerate() {
            let (of_head, i) = (row / n, row % n);
            let group = of_head / heads * groups + of_head % heads / (heads / groups);
            let x = &x.values[(group * n + i) * n..][..n];
            let g = &g.values[of_head * n..][..n];
            for (j, y) in y.iter_mut().enumerate() {
                let kept = j < i || (j == i && self.diagonal);
                *y = if kept { x[j] * (g[i] - g[j]).exp() } else { 0.0 };
            }
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 2)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuDecay, &gpu::GpuDecay]
    }
}

/// Records the decay of the scores `x` by the running sums `g`.
pub fn causal_decay<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    g: &R::Value,
    diagonal: bool,
) -> Result<R::Value> {
    recorder.run_one(CausalDecay { diagonal }, &[x, g])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let info = |axes: &[usize]| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
        let slot =
            |x: &[usize], g: &[usize]| match (CausalDecay { diagonal: true }).infer(&[info(x), info(g)]) {
                Err(Error::Shape { slot, .. }) => slot,
                other => panic!("{other:?}"),
            };
        assert_eq!(slot(&[2, 3, 5, 4], &[2, 3, 5]), "x");
        assert_eq!(slot(&[2, 3, 5, 5], &[2, 4, 5]), "g");
        assert_eq!(slot(&[2, 3, 5, 5], &[2, 3, 4]), "g");
        let y = CausalDecay { diagonal: false }.infer(&[info(&[2, 3, 5, 5]), info(&[2, 6, 5])]);
        assert_eq!(y.unwrap().as_slice(), [info(&[2, 6, 5, 5])]);
    }
}
