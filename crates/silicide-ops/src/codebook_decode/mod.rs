//! Decodes what [`codebook_encode`](crate::codebook_encode()) made: the level of each code, times the norm of its block, divided by the factor.
//!
//! A code past the last level is the last level.

pub mod cases;
mod cpu;
mod gpu;

use crate::codebook_encode::Codebook;
use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The op. Inputs: `codes` u8 and `norms` f32, as the encoder makes them, and `levels` f32. Output: `y` f32 `[rows, n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodebookDecode {
    /// The format.
    pub codebook: Codebook,
}

impl Op for CodebookDecode {
    fn name(&self) -> &'static str {
        "codebook_decode"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("codes"), Slot::input("norms"), Slot::input("levels"), Slot::output("y")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "codebook_decode";
        let [codes, norms, levels] = inputs(op, self.slots(), given)?;
        for (slot, info, expected) in [("codes", codes, DType::U8), ("norms", norms, DType::F32)] {
            if info.dtype != expected {
                let expected = expected.to_string();
                return Err(Error::DTypeMismatch { op, slot, expected, got: info.dtype });
            }
        }
        let &[rows, bytes] = codes.shape.axes() else {
            let expected = "[rows, bytes]".to_owned();
            return Err(Error::Shape { op, slot: "codes", expected, got: codes.shape });
        };
        let n = if self.codebook.nibbles { bytes.saturating_mul(2) } else { bytes };
        self.codebook.check(op, n, &levels)?;
        if norms.shape.axes() != [rows, n / self.codebook.block] {
            let expected = format!("[{rows}, {}]", n / self.codebook.block);
            return Err(Error::Shape { op, slot: "norms", expected, got: norms.shape });
        }
        let shape = codes.shape.with_last(n).map_err(|source| Error::bad_shape(op, source))?;
        Ok(Outputs::from_slice(&[TensorInfo::new(DType::F32, shape)]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([codes, norms, levels, ..], [y, ..]) = (inputs, outputs) else { return };
        let Codebook { block, factor, nibbles, .. } = self.codebook;
        for (i, y) in y.values.iter_mut().enumerate() {
            let code = match nibbles {
                false => codes.values[i] as usize,
                true => codes.values[i / 2] as usize >> (i % 2 * 4) & 15,
            };
            let level = levels.values[code.min(levels.values.len() - 1)];
            *y = level * norms.values[i / block] / f64::from(factor);
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.output(0).elements() as u64 * 2)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuDecode, &gpu::GpuDecode]
    }
}

/// Records the rows that codes and norms stand for.
pub fn codebook_decode<R: Recorder>(
    recorder: &mut R,
    codes: &R::Value,
    norms: &R::Value,
    levels: &R::Value,
    codebook: Codebook,
) -> Result<R::Value> {
    recorder.run_one(CodebookDecode { codebook }, &[codes, norms, levels])
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;

    #[test]
    fn norms_must_be_one_for_each_block() {
        let codebook = Codebook { block: 4, mean: false, factor: 1.0, nibbles: true };
        let infer = |codes: &[usize], norms: &[usize]| {
            let info = |dtype, axes| TensorInfo::new(dtype, Shape::new(axes).unwrap());
            let levels = info(DType::F32, &[16]);
            CodebookDecode { codebook }.infer(&[info(DType::U8, codes), info(DType::F32, norms), levels])
        };
        assert_eq!(infer(&[3, 4], &[3, 2]).unwrap()[0].shape.axes(), [3, 8]);
        assert!(infer(&[3, 4], &[3, 1]).is_err());
        assert!(infer(&[3, 4], &[2, 2]).is_err());
        assert!(infer(&[4], &[3, 2]).is_err());
    }
}
