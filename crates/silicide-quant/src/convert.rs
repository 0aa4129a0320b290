//! Stored elements to values and back, for every element type: exactly (f64, for references and tests) and fast (f32).
//!
//! Neighbours: `element` has the plain types one value at a time, `format` the block formats.

use crate::parallel::{PARALLEL_RUN, spread};
use crate::{DType, Element, FormatError};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Evaluates one expression for the Rust type of a plain dtype, or the other for a format.
macro_rules! with_type {
    ($dtype:expr, $T:ident => $plain:expr, $format:ident => $block:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $plain
            }
            DType::F16 => {
                type $T = f16;
                $plain
            }
            DType::BF16 => {
                type $T = bf16;
                $plain
            }
            DType::F64 => {
                type $T = f64;
                $plain
            }
            DType::I8 => {
                type $T = i8;
                $plain
            }
            DType::I16 => {
                type $T = i16;
                $plain
            }
            DType::I32 => {
                type $T = i32;
                $plain
            }
            DType::I64 => {
                type $T = i64;
                $plain
            }
            DType::U8 => {
                type $T = u8;
                $plain
            }
            DType::U16 => {
                type $T = u16;
                $plain
            }
            DType::U32 => {
                type $T = u32;
                $plain
            }
            DType::U64 => {
                type $T = u64;
                $plain
            }
            DType::Block($format) => $block,
            DType::Turbo($format) => $block,
        }
    };
}

/// Reads stored elements as f64. Trailing bytes that make no whole element or block are ignored.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    with_type!(
        dtype,
        T => bytes
            .chunks_exact(size_of::<T>())
            .map(|chunk| bytemuck::pod_read_unaligned::<T>(chunk).to_f64())
            .collect(),
        format => {
            let mut values = vec![0.0; bytes.len() / format.block_bytes() * format.block_len()];
            format.decode_whole(bytes, &mut values);
            values.into_iter().map(f64::from).collect()
        }
    )
}

/// Stores f64 values as elements of `dtype`: plain ones rounded as [`Element::from_f64`] does, blocks by their encoder.
/// Trailing values that make no whole block are ignored.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    with_type!(
        dtype,
        T => values
            .iter()
            // Spelt out: `half` has a `from_f64` of its own, which would win, and rounds less well.
            .flat_map(|&value| bytemuck::bytes_of(&<T as Element>::from_f64(value)).to_vec())
            .collect(),
        format => {
            let values: Vec<f32> = values.iter().map(|&value| value as f32).collect();
            let mut bytes = vec![0; values.len() / format.block_len() * format.block_bytes()];
            format.encode_whole(&values, &mut bytes);
            bytes
        }
    )
}

/// Reads stored elements as f32 with the fastest code that this machine runs. `bytes` must be exactly the elements of
/// `out`; integers and f64 are rounded to nearest.
pub fn decode_into(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<(), FormatError> {
    check(dtype, out.len(), bytes.len())?;
    match dtype {
        DType::Block(format) => format.decode_whole(bytes, out),
        DType::Turbo(format) => format.decode_whole(bytes, out),
        DType::F16 => widen_halves(bytes, out),
        DType::BF16 => {
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            }
        }
        _ => with_type!(
            dtype,
            T => for (value, chunk) in out.iter_mut().zip(bytes.chunks_exact(size_of::<T>())) {
                *value = bytemuck::pod_read_unaligned::<T>(chunk).to_f64() as f32;
            },
            _format => ()
        ),
    }
    Ok(())
}

/// Stores f32 values as elements of `dtype` with the fastest code that this machine runs, on up to `threads` threads. `out` must be
/// exactly the elements of `values`. Rounds as [`encode`] does.
pub fn encode_into(dtype: DType, values: &[f32], out: &mut [u8], threads: usize) -> Result<(), FormatError> {
    check(dtype, values.len(), out.len())?;
    let run = PARALLEL_RUN / dtype.block_len() * dtype.block_bytes();
    let jobs = values.chunks(PARALLEL_RUN).zip(out.chunks_mut(run));
    spread(threads, jobs, |(values, out)| match dtype {
        DType::Block(format) => format.encode_whole(values, out),
        DType::Turbo(format) => format.encode_whole(values, out),
        DType::F16 => narrow(values, out, |from, to: &mut [f16]| to.convert_from_f32_slice(from)),
        DType::BF16 => narrow(values, out, |from, to: &mut [bf16]| to.convert_from_f32_slice(from)),
        _ => with_type!(
            dtype,
            T => for (slot, &value) in out.chunks_exact_mut(size_of::<T>()).zip(values) {
                slot.copy_from_slice(bytemuck::bytes_of(&<T as Element>::from_f64(f64::from(value))));
            },
            _format => ()
        ),
    });
    Ok(())
}

/// Refuses a part of a block, and bytes that are not exactly those of the elements.
fn check(dtype: DType, elements: usize, got: usize) -> Result<(), FormatError> {
    match dtype {
        DType::Block(format) => return format.check(elements, got),
        DType::Turbo(format) => return format.check(elements, got),
        _ => {}
    }
    let expected = elements.saturating_mul(dtype.size());
    if expected == got {
        Ok(())
    } else {
        Err(FormatError::Length { what: dtype.name(), elements, expected, got })
    }
}

/// Elements of the small arrays between stored halves, which may lie at odd addresses, and values.
const RUN: usize = 256;

fn narrow<T: Element>(values: &[f32], out: &mut [u8], convert: impl Fn(&[f32], &mut [T])) {
    let mut halves = [T::zeroed(); RUN];
    for (values, out) in values.chunks(RUN).zip(out.chunks_mut(size_of::<T>() * RUN)) {
        if let Some(halves) = halves.get_mut(..values.len()) {
            convert(values, halves);
            out.copy_from_slice(bytemuck::cast_slice(halves));
        }
    }
}

fn widen_halves(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; RUN];
    for (out, bytes) in out.chunks_mut(RUN).zip(bytes.chunks(2 * RUN)) {
        if let Some(halves) = halves.get_mut(..out.len()) {
            bytemuck::cast_slice_mut(halves).copy_from_slice(bytes);
            halves.convert_to_f32_slice(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::turbo::{TurboBits, TurboFormat};

    #[test]
    fn small_integers_survive_every_type() {
        for dtype in DType::ALL {
            let values = [0.0, 1.0, 2.0, 100.0, 127.0];
            let bytes = encode(dtype, &values);
            assert_eq!(bytes.len(), values.len() * dtype.size(), "{dtype}");
            assert_eq!(decode(dtype, &bytes), values, "{dtype}");
        }
    }

    #[test]
    fn stored_halves_were_rounded_once() {
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(decode(DType::BF16, &encode(DType::BF16, &[tie + 2f64.powi(-50)])), [1.0 + 2f64.powi(-7)]);
        let above = [-(tie + 2f64.powi(-40))];
        assert_eq!(decode(DType::BF16, &encode(DType::BF16, &above)), [-1.0 - 2f64.powi(-7)]);
    }

    #[test]
    fn both_readings_agree_at_odd_addresses() {
        let turbo = TurboFormat::ALL.map(DType::Turbo);
        for dtype in DType::ALL.into_iter().chain(Format::ALL.map(DType::Block)).chain(turbo) {
            let blocks = 600usize.div_ceil(dtype.block_len());
            let bytes: Vec<u8> = (0..=blocks * dtype.size()).map(|i| (i * 37 + i / 251) as u8).collect();
            let exact = decode(dtype, &bytes[1..]);
            let mut fast = vec![0.0; exact.len()];
            decode_into(dtype, &bytes[1..], &mut fast).unwrap();
            assert_eq!(exact.len(), blocks * dtype.block_len());
            for (exact, fast) in exact.iter().zip(&fast) {
                assert!(*exact as f32 == *fast || exact.is_nan() && fast.is_nan(), "{dtype}: {exact} {fast}");
            }
            assert!(decode_into(dtype, &bytes, &mut fast).is_err(), "{dtype}");
        }
    }

    #[test]
    fn both_storings_agree_on_any_number_of_threads() {
        let values: Vec<f32> = (0..PARALLEL_RUN + 512).map(|i| (i as f32 * 0.37).sin() * 50.0).collect();
        let exact: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let formats = [Format::Q4_0, Format::Q6K, Format::Mxfp4].map(DType::Block);
        let turbo = DType::Turbo(TurboFormat::for_head(TurboBits::B5, 64).unwrap());
        for dtype in DType::ALL.into_iter().chain(formats).chain([turbo]) {
            let expected = encode(dtype, &exact);
            for threads in [0, 1, 3] {
                let mut bytes = vec![0; expected.len() + 1];
                encode_into(dtype, &values, &mut bytes[1..], threads).unwrap();
                assert!(bytes[1..] == expected, "{dtype} on {threads} threads");
                assert!(encode_into(dtype, &values, &mut bytes, threads).is_err(), "{dtype}");
            }
        }
    }

    #[test]
    fn parts_of_blocks_are_ignored_or_refused() {
        let q4_0 = DType::Block(Format::Q4_0);
        assert_eq!(decode(q4_0, &[0; 35]).len(), 32);
        assert_eq!(decode(q4_0, &[0; 17]).len(), 0);
        assert_eq!(encode(q4_0, &[0.0; 63]).len(), 18);
        let mut out = [0.0; 33];
        let expected = FormatError::PartialBlock { elements: 33, block_len: 32 };
        assert_eq!(decode_into(q4_0, &[0; 18], &mut out), Err(expected));
    }
}
