//! Block formats and MLX planes: decodes the input with every instruction set.

use crate::target::Outcome;
use silicide_quant::{Format, Isa, MlxFormat, MlxPlanes};

/// The families of each target. Inputs choose a format by its position among those of the target.
const LEGACY: &[&str] = &["legacy"];
const K: &[&str] = &["k"];
const IQ: &[&str] = &["iq1", "iq2", "iq3"];
const IQ4: &[&str] = &["iq4"];
const TERNARY: &[&str] = &["ternary"];
const FP4: &[&str] = &["fp4"];

/// Decodes formats of one scale per 32 elements.
pub(super) fn decode_legacy(bytes: &[u8]) -> Outcome {
    decode(LEGACY, bytes)
}

/// Decodes formats of sub-blocks.
pub(super) fn decode_k(bytes: &[u8]) -> Outcome {
    decode(K, bytes)
}

/// Decodes formats with code books.
pub(super) fn decode_iq(bytes: &[u8]) -> Outcome {
    decode(IQ, bytes)
}

/// Decodes 4-bit formats with non-linear levels.
pub(super) fn decode_iq4(bytes: &[u8]) -> Outcome {
    decode(IQ4, bytes)
}

/// Decodes formats of one or two bits.
pub(super) fn decode_ternary(bytes: &[u8]) -> Outcome {
    decode(TERNARY, bytes)
}

/// Decodes 4-bit floats.
pub(super) fn decode_fp4(bytes: &[u8]) -> Outcome {
    decode(FP4, bytes)
}

/// Decodes blocks of the format that the first byte selects. All instruction sets must agree to the bit.
fn decode(families: &[&str], bytes: &[u8]) -> Outcome {
    let Some((choice, bytes)) = bytes.split_first() else { return empty() };
    let formats = || Format::ALL.into_iter().filter(|format| families.contains(&format.info().family));
    let Some(format) = formats().cycle().nth(usize::from(*choice)) else { return empty() };
    let blocks = bytes.len() / format.block_bytes();
    let bytes = bytes.get(..blocks * format.block_bytes()).unwrap_or_default();
    agree(blocks * format.block_len(), |isa, out| format.decode_with(isa, bytes, out).is_ok());
    Outcome::Accepted
}

/// Decodes planes of the MLX format that the first byte selects.
pub(super) fn decode_mlx(bytes: &[u8]) -> Outcome {
    let Some((choice, bytes)) = bytes.split_first() else { return empty() };
    let formats = MlxFormat::all();
    let Some(format) = formats.get(usize::from(*choice) % formats.len()) else { return empty() };
    let Ok(each) = format.plane_bytes(format.group()) else { return empty() };
    let groups = bytes.len() / (each.packed + each.scales + each.biases);
    let (packed, rest) = bytes.split_at(groups * each.packed);
    let (scales, rest) = rest.split_at(groups * each.scales);
    let biases = rest.get(..groups * each.biases).unwrap_or_default();
    let planes = MlxPlanes { packed, scales, biases };
    agree(groups * format.group(), |isa, out| format.decode_with(isa, planes, out).is_ok());
    Outcome::Accepted
}

/// The outcome of an input that is too short to name a format.
fn empty() -> Outcome {
    Outcome::Refused("Empty".to_owned())
}

fn agree(elements: usize, decode: impl Fn(Isa, &mut [f32]) -> bool) {
    let mut expected = vec![0.0; elements];
    assert!(decode(Isa::PORTABLE, &mut expected), "whole blocks decode");
    for isa in Isa::available() {
        let mut got = vec![0.0; elements];
        assert!(decode(isa, &mut got));
        // NaNs may differ in what they carry.
        let same =
            expected.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan());
        assert!(same, "{} decodes to other values", isa.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_decoded_by_one_target() {
        let families = [LEGACY, K, IQ, IQ4, TERNARY, FP4].concat();
        for format in Format::ALL {
            let targets = families.iter().filter(|family| **family == format.info().family).count();
            assert_eq!(targets, 1, "{format}");
        }
    }
}
