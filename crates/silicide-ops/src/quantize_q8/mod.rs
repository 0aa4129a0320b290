//! Quantizing activations to 8 bits, for products in integers on the CPU ([`linear`](crate::linear()),
//! [`expert_linear`](crate::expert_linear())).
//!
//! ```text
//! for each row x, for each group g of 32 elements:
//!     scale[g]     = max |x| / 127                                 # NaN if an element is not finite
//!     code[g * 32 + i] = round(x[i] * 127 / max |x|)               # -127..=127; 0 where the scale is 0, any where it is NaN
//!
//! a quantized row, in bytes:
//! | codes, i8 | scales, f32 | sums of codes 0..16 of each group, i32 | of codes 16..32, i32 | zeros to a multiple of 64 |
//! ```
//!
//! Functions that multiply record this op themselves. Graphs fuse it with the op that makes `x` ([`fuse`](crate::fuse)): such an
//! op has the quantized rows as its last output, `q`.

pub mod cases;
mod cpu;

pub(crate) use cpu::{BoundRow, quantize_launch, quantize_part, quantize_row};

use crate::elementwise::inputs;
use crate::product::integer;
use silicide_core::kernel::{Host, Io, Kernel, Op, Outputs, Slot, TensorInfo, Tolerance, Work};
use silicide_core::{Error, Recorder, Result};
use silicide_gemm::q8::{GROUP, quantized_row_bytes};
use silicide_quant::{DType, Encoding, Shape};

/// The op. Input: `x` of f32 or bf16, `[..., k]`, whose `k` is a multiple of 32. Output: `q` of u8, `[..., bytes of a quantized row]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantizeQ8;

/// The slot of quantized rows among the outputs of an op.
pub(crate) const Q: Slot = Slot::output("q");

/// Returns type and shape of the quantized rows of `rows` of op `op`, or why there are none.
pub(crate) fn infer_quantized(op: &'static str, slot: &'static str, rows: &TensorInfo) -> Result<TensorInfo> {
    if rows.dtype != DType::F32 {
        return Err(Error::DTypeMismatch { op, slot, expected: "f32".to_owned(), got: rows.dtype });
    }
    let k = rows.shape.last();
    if rows.elements() == 0 || !k.is_multiple_of(GROUP) {
        let expected = format!("rows of a multiple of {GROUP} elements");
        return Err(Error::Shape { op, slot, expected, got: rows.shape });
    }
    let shape = rows.shape.with_last(quantized_row_bytes(k / GROUP));
    Ok(TensorInfo::new(DType::U8, shape.map_err(|source| Error::bad_shape(op, source))?))
}

/// Quantizes rows of `k` numbers: the reference. Returns bytes as numbers.
pub(crate) fn quantized_bytes(rows: &[f64], k: usize) -> Vec<f64> {
    let mut all = Vec::new();
    for row in rows.chunks_exact(k) {
        let (mut codes, mut scales, mut sums) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        for group in row.chunks_exact(GROUP) {
            let largest = group.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
            let is_finite = group.iter().all(|x| x.is_finite());
            let scale = if is_finite { (largest / 127.0) as f32 } else { f32::NAN };
            let inverse = if scale > 0.0 { 127.0 / largest } else { 0.0 };
            let first = codes.len();
            codes.extend(
                group.iter().map(|x| if is_finite { (x * inverse).round_ties_even() as i8 } else { 0 }),
            );
            scales.extend(scale.to_le_bytes());
            for (sums, half) in sums.iter_mut().zip(codes.get(first..).unwrap_or_default().chunks(GROUP / 2))
            {
                sums.extend(half.iter().map(|code| i32::from(*code)).sum::<i32>().to_le_bytes());
            }
        }
        let [first, second] = sums;
        let mut bytes: Vec<u8> = codes.into_iter().map(|code| code as u8).collect();
        bytes.extend(scales.into_iter().chain(first).chain(second));
        bytes.resize(quantized_row_bytes(k / GROUP), 0);
        all.extend(bytes.into_iter().map(f64::from));
    }
    all
}

/// Returns the numbers that quantized rows of `k` elements stand for. A group whose sums are not those of its codes is NaN.
pub(crate) fn quantized_values(bytes: &[u8], k: usize) -> Vec<f64> {
    let groups = k / GROUP;
    let mut values = Vec::new();
    for row in bytes.chunks_exact(quantized_row_bytes(groups).max(1)) {
        let word = |part: usize, group: usize| -> [u8; 4] {
            let start = groups * GROUP + (part * groups + group) * 4;
            row.get(start..).and_then(|word| word.first_chunk()).copied().unwrap_or_default()
        };
        for (group, codes) in row.chunks_exact(GROUP).take(groups).enumerate() {
            let codes: Vec<i8> = codes.iter().map(|code| *code as i8).collect();
            let is_sum = |(half, codes): (usize, &[i8])| {
                codes.iter().map(|code| i32::from(*code)).sum::<i32>()
                    == i32::from_le_bytes(word(1 + half, group))
            };
            let is_whole = codes.chunks(GROUP / 2).enumerate().all(is_sum);
            let scale = if is_whole { f64::from(f32::from_le_bytes(word(0, group))) } else { f64::NAN };
            values.extend(codes.iter().map(|code| f64::from(*code) * scale));
        }
    }
    values
}

/// [`quantized_values`] of an input of a reference.
pub(crate) fn host_values(rows: &Host, k: usize) -> Vec<f64> {
    let bytes: Vec<u8> = rows.values.iter().map(|byte| *byte as u8).collect();
    quantized_values(&bytes, k)
}

/// How far decoded rows may be apart. Here and there a code is rounded the other way, by 1/127 of the largest of its group: 1e-5 is one
/// code of 32. Measured are at most 2e-9 and 5e-3.
pub(crate) const TOLERANCE: Tolerance = Tolerance { nmse: 1e-5, max: 8e-3 };

impl Op for QuantizeQ8 {
    fn name(&self) -> &'static str {
        "quantize_q8"
    }

    fn slots(&self) -> &'static [Slot] {
        const { &[Slot::input("x"), Q] }
    }

    fn infer(&self, given: &[TensorInfo]) -> Result<Outputs> {
        let [x] = inputs(self.name(), self.slots(), given)?;
        // Rows of bf16 are the same numbers in f32.
        let dtype = if x.dtype == DType::BF16 { DType::F32 } else { x.dtype };
        Ok(Outputs::from_slice(&[infer_quantized(self.name(), "x", &TensorInfo { dtype, ..x })?]))
    }

    fn reference(&self, inputs: &[Host], outputs: &mut [Host]) {
        if let ([x], [q]) = (inputs, outputs) {
            q.values = quantized_bytes(&x.values, x.shape.last());
        }
    }

    fn tolerance(&self, _: &Io<'_>, _: &TensorInfo) -> Tolerance {
        TOLERANCE
    }

    fn decode_output(&self, io: &Io<'_>, _: usize, bytes: &[u8]) -> Option<Vec<f64>> {
        Some(quantized_values(bytes, io.input(0).shape.last()))
    }

    fn work(&self, io: &Io<'_>) -> Work {
        Work::streaming(io, io.input(0).elements() as u64 * 4)
    }

    fn kernels() -> &'static [&'static dyn Kernel<Op = Self>] {
        &[&cpu::Rows]
    }
}

/// Records rows of f32 or bf16 as quantized rows.
pub fn quantize_q8<R: Recorder>(recorder: &mut R, x: &R::Value) -> Result<R::Value> {
    recorder.run_one(QuantizeQ8, &[x])
}

/// A weight that activations are multiplied with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightExtents {
    pub(crate) encoding: Encoding,
    /// `[..., n, k]`.
    pub(crate) shape: Shape,
}

/// Records the quantized rows of `x` for products with `weights`. Returns `None` if the device does not compute all of them in
/// integers, or if types or shapes do not match: the product then reports the error.
pub(crate) fn for_products<R: Recorder>(
    recorder: &mut R,
    x: &R::Value,
    weights: &[WeightExtents],
) -> Result<Option<R::Value>> {
    let (info, on) = (recorder.info(x), recorder.device().info());
    let is_integer = |weight: &WeightExtents| match weight.shape.axes() {
        [.., n, k] => integer::takes(weight.encoding, [*n, *k]) && info.shape.last() == *k,
        _ => false,
    };
    let quantizes = !on.is_gpu()
        && matches!(info.dtype, DType::F32 | DType::BF16)
        && info.elements() > 0
        && !weights.is_empty()
        && weights.iter().all(is_integer);
    if quantizes { quantize_q8(recorder, x).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(dtype: DType, axes: &[usize]) -> TensorInfo {
        TensorInfo::new(dtype, Shape::new(axes).unwrap())
    }

    #[test]
    fn rows_are_whole_cache_lines() {
        for (k, bytes) in [(32, 64), (64, 128), (96, 192), (128, 192), (4096, 5632)] {
            let outputs = QuantizeQ8.infer(&[info(DType::F32, &[2, 3, k])]).unwrap();
            assert_eq!(outputs.to_vec(), [info(DType::U8, &[2, 3, bytes])]);
        }
    }

    #[test]
    fn refusals_name_the_argument() {
        for x in [info(DType::F16, &[64]), info(DType::F32, &[2, 33]), info(DType::F32, &[0, 32])] {
            let refused = QuantizeQ8.infer(&[x]);
            let is_x = matches!(
                refused,
                Err(Error::Shape { slot: "x", .. } | Error::DTypeMismatch { slot: "x", .. })
            );
            assert!(is_x, "{refused:?}");
        }
    }

    #[test]
    fn values_survive_up_to_half_a_step() {
        let x: Vec<f64> = (0..64).map(|i| f64::from(i) - 20.0).collect();
        let bytes: Vec<u8> = quantized_bytes(&x, 64).iter().map(|byte| *byte as u8).collect();
        let values = quantized_values(&bytes, 64);
        for (x, value) in x.iter().zip(&values) {
            assert!((x - value).abs() <= 43.0 / 254.0 + 1e-6, "{x} {value}");
        }
        let mut wrong = bytes.clone();
        wrong[3] = wrong[3].wrapping_add(1);
        assert!(quantized_values(&wrong, 64)[..32].iter().all(|value| value.is_nan()));
    }
}
