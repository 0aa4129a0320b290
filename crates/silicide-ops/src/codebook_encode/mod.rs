//! Quantizes rows by a codebook: each block of a row is divided by its norm, and each element becomes the index of the nearest level.
//!
//! ```text
//! norm = sqrt(sum of squares of the block), or of their mean        y = x * factor / norm, 0 where norm is at most 1e-10
//! code = how many midpoints between neighbouring levels are below y
//! ```
//!
//! With rows that a random rotation makes look normal, and the levels of a Lloyd-Max codebook, this is TurboQuant's encoder.
//! [`codebook_decode`](crate::codebook_decode()) is the inverse. A NaN has the code 0.

pub mod cases;
mod cpu;
mod gpu;

use crate::elementwise::inputs;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_quant::DType;

/// The most levels.
pub const MOST_LEVELS: usize = 256;
/// Blocks with a norm up to this have zeros.
const LEAST_NORM: f32 = 1e-10;

/// How codes and norms relate to elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Codebook {
    /// Elements of a block, which has a norm of its own; rows are whole blocks.
    pub block: usize,
    /// Whether a norm is a root of a mean, not of a sum.
    pub mean: bool,
    /// The factor of elements that were divided by their norm.
    pub factor: f32,
    /// Whether two codes are in a byte, the earlier in its low half; for at most 16 levels.
    pub nibbles: bool,
}

impl Codebook {
    /// Checks the description for rows of `n` elements and this many levels.
    pub(crate) fn check(&self, op: &'static str, n: usize, levels: &TensorInfo) -> Result<()> {
        let bad = |what: String| Err(Error::BadParameter { op, what });
        if self.block == 0 || !n.is_multiple_of(self.block) || (self.nibbles && !n.is_multiple_of(2)) {
            return bad(format!("rows of {n} elements are not whole blocks of {}", self.block));
        }
        if !(self.factor.is_finite() && self.factor > 0.0) {
            return bad(format!("factor must be finite and above 0, got {}", self.factor));
        }
        let most = if self.nibbles { 16 } else { MOST_LEVELS };
        match levels.shape.axes() {
            &[count] if (2..=most).contains(&count) && levels.dtype == DType::F32 => Ok(()),
            _ => {
                let expected = format!("f32 [2 to {most}]");
                Err(Error::Shape { op, slot: "levels", expected, got: levels.shape })
            }
        }
    }

    /// Bytes of the codes of `n` elements.
    pub(crate) fn code_bytes(&self, n: usize) -> usize {
        if self.nibbles { n / 2 } else { n }
    }
}

/// The op. Inputs: `x` f32 `[rows, n]` and `levels` f32, ascending. Outputs: `codes` u8 `[rows, n]`, or `[rows, n / 2]` for nibbles, and
/// `norms` f32 `[rows, n / block]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodebookEncode {
    /// The format.
    pub codebook: Codebook,
}

impl Op for CodebookEncode {
    fn name(&self) -> &'static str {
        "codebook_encode"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Slot::input("levels"), Slot::output("codes"), Slot::output("norms")] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let op = "codebook_encode";
        let [x, levels] = inputs(op, self.slots(), given)?;
        if x.dtype != DType::F32 {
            return Err(Error::DTypeMismatch { op, slot: "x", expected: "f32".to_owned(), got: x.dtype });
        }
        let &[_, n] = x.shape.axes() else {
            let expected = "[rows, n]".to_owned();
            return Err(Error::Shape { op, slot: "x", expected, got: x.shape });
        };
        self.codebook.check(op, n, &levels)?;
        let of = |last| x.shape.with_last(last).map_err(|source| Error::bad_shape(op, source));
        Ok(Outputs::from_slice(&[
            TensorInfo::new(DType::U8, of(self.codebook.code_bytes(n))?),
            TensorInfo::new(DType::F32, of(n / self.codebook.block)?),
        ]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        let ([x, levels, ..], [codes, norms, ..]) = (inputs, outputs) else { return };
        let Codebook { block, mean, factor, nibbles } = self.codebook;
        let midpoints: Vec<f64> = levels.values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        codes.values.fill(0.0);
        for (i, (x, norm)) in x.values.chunks_exact(block).zip(&mut norms.values).enumerate() {
            let divisor = if mean { block as f64 } else { 1.0 };
            *norm = (x.iter().map(|x| x * x).sum::<f64>() / divisor).sqrt();
            let scale = if *norm > f64::from(LEAST_NORM) { f64::from(factor) / *norm } else { 0.0 };
            for (j, x) in x.iter().enumerate() {
                let code = midpoints.iter().filter(|midpoint| x * scale > **midpoint).count() as f64;
                let at = i * block + j;
                match nibbles {
                    false => codes.values[at] = code,
                    true => codes.values[at / 2] += if at.is_multiple_of(2) { code } else { 16.0 * code },
                }
            }
        }
    }

    fn tolerance(&self, _io: &Io<'_>, output: &TensorInfo) -> Tolerance {
        match output.dtype {
            // An element beside a midpoint may fall on either side: one step of one code, 16 in the high half of a byte.
            DType::U8 if self.codebook.nibbles => Tolerance { nmse: 1e-4, max: 17.0 / 255.0 + 1e-9 },
            DType::U8 => Tolerance { nmse: 1e-5, max: 0.51 },
            other => Tolerance::rounding(other),
        }
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 10)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::CpuEncode, &gpu::GpuEncode]
    }
}

/// Records the codes and the norms of the rows of `x`.
pub fn codebook_encode<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    levels: &R::Value,
    codebook: Codebook,
) -> Result<(R::Value, R::Value)> {
    let mut outputs = recorder.run(CodebookEncode { codebook }, &[x, levels])?.into_iter();
    match (outputs.next(), outputs.next()) {
        (Some(codes), Some(norms)) => Ok((codes, norms)),
        _ => Err(Error::ArgumentCount { op: "codebook_encode", what: "outputs", expected: 2, got: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silicide_quant::Shape;

    #[test]
    fn refusals_name_what_is_wrong() {
        let good = Codebook { block: 4, mean: false, factor: 1.0, nibbles: true };
        let infer = |codebook, x: &[usize], levels: &[usize]| {
            let info = |axes| TensorInfo::new(DType::F32, Shape::new(axes).unwrap());
            CodebookEncode { codebook }.infer(&[info(x), info(levels)])
        };
        let outputs = infer(good, &[3, 8], &[16]).unwrap();
        assert_eq!(outputs[0], TensorInfo::new(DType::U8, Shape::new(&[3, 4]).unwrap()));
        assert_eq!(outputs[1], TensorInfo::new(DType::F32, Shape::new(&[3, 2]).unwrap()));
        assert!(infer(good, &[8], &[16]).is_err());
        assert!(infer(good, &[3, 6], &[16]).is_err());
        assert!(infer(good, &[3, 8], &[17]).is_err());
        assert!(infer(good, &[3, 8], &[1]).is_err());
        assert!(infer(Codebook { factor: 0.0, ..good }, &[3, 8], &[16]).is_err());
        assert!(infer(Codebook { block: 0, ..good }, &[3, 8], &[16]).is_err());
    }
}
