//! Triangular systems: `x` with `L x = b`, by forward substitution, where `L` is lower triangular with ones on its diagonal.
//!
//! ```text
//! x[i] = b[i] - sum over j < i of l[i][j] * x[j]
//! ```
//!
//! Elements of `l` on and above the diagonal are not read. Summed in f32 in the order of `j`. NaN and infinity go through as the arithmetic
//! has it.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::{DType, Shape};

/// The op. Inputs, all f32: `l` `[systems, n, n]` and `b` `[systems, n, columns]`, or
/// `[1, n, columns]` for all systems. Output: `x` `[systems, n, columns]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TriSolve;

/// Extents of a checked call.
#[derive(Clone, Copy, Debug)]
struct Systems {
    systems: usize,
    n: usize,
    columns: usize,
    /// Whether all systems have the same right side.
    shared: bool,
}

impl Systems {
    fn of(io: &Io<'_>) -> Option<Systems> {
        match (io.output(0).shape.axes(), io.input(1).shape.axes()) {
            (&[systems, n, columns], &[right, ..]) => {
                Some(Systems { systems, n, columns, shared: right < systems })
            }
            _ => None,
        }
    }

    /// The extents as parameter words.
    fn words(&self) -> [u32; 4] {
        [self.systems, self.n, self.columns, usize::from(self.shared)].map(|word| word as u32)
    }
}

impl Op for TriSolve {
    fn name(&self) -> &'static str {
        "tri_solve"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("l"), Slot::input("b"), Slot::output("x")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "tri_solve";
        let [l, b] = inputs(op, self.slots(), given)?;
        for (slot, info) in [("l", l), ("b", b)] {
            if info.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: info.dtype });
            }
        }
        let (systems, n) = match l.shape.axes() {
            &[systems, n, columns] if n == columns => (systems, n),
            _ => {
                let expected = "[systems, n, n]".to_owned();
                return Err(Error::Shape { op, slot: "l", expected, got: l.shape });
            }
        };
        let columns = match b.shape.axes() {
            &[right, rows, columns] if (right == systems || right == 1) && rows == n => columns,
            _ => {
                let expected = format!("[{systems} or 1, {n}, columns]");
                return Err(Error::Shape { op, slot: "b", expected, got: b.shape });
            }
        };
        let shape = Shape::new(&[systems, n, columns]).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([l, b, ..], [x, ..]) = (inputs, outputs) else { return };
        let &[_, n, columns] = b.shape.axes() else { return };
        x.values = b.values.iter().copied().cycle().take(x.shape.elements()).collect();
        for (l, x) in l.values.chunks_exact(n * n).zip(x.values.chunks_exact_mut(n * columns)) {
            for (i, j) in (0..n).flat_map(|i| (0..i).map(move |j| (i, j))) {
                for c in 0..columns {
                    x[i * columns + c] -= l[i * n + j] * x[j * columns + c];
                }
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, _output: &TensorInfo) -> Tolerance {
        // Roundings of a row are carried to the rows below it.
        Tolerance { nmse: 1e-9, max: 1e-4 }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * io.input(0).shape.last() as u64)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuTriSolve, &gpu::GpuTriSolve]
    }
}

/// Records the solution of `l x = b` for each system.
pub fn tri_solve<R: Recorder>(recorder: &mut R, l: &R::Value, b: &R::Value) -> Result<R::Value> {
    recorder.run_one(TriSolve, &[l, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_argument() {
        let info = |axes: &[usize]| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
        let slot = |l: &[usize], b: &[usize]| match TriSolve.infer(&[info(l), info(b)]) {
            Err(Error::Shape { slot, .. }) => slot,
            other => panic!("{other:?}"),
        };
        assert_eq!(slot(&[2, 3, 4], &[2, 3, 1]), "l");
        assert_eq!(slot(&[3, 3], &[2, 3, 1]), "l");
        assert_eq!(slot(&[2, 3, 3], &[2, 4, 1]), "b");
        assert_eq!(slot(&[3, 3, 3], &[2, 3, 1]), "b");
        for right in [1, 2] {
            let x = TriSolve.infer(&[info(&[2, 3, 3]), info(&[right, 3, 5])]);
            assert_eq!(x.unwrap().as_slice(), [info(&[2, 3, 5])]);
        }
    }
}
