//! Block formats and MLX planes: decodes the input with every instruction set.

use crate::target::Outcome;
use silicide_quant::{Format, Isa, MlxFormat, MlxPlanes};

/// Decodes Q4_0 to Q8_1.
pub(super) fn decode_legacy(bytes: &[u8]) -> Outcome {
    use Format::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1};
    decode(&[Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1], bytes)
}

/// Decodes Q2_K to Q8_K.
pub(super) fn decode_k(bytes: &[u8]) -> Outcome {
    use Format::{Q2K, Q3K, Q4K, Q5K, Q6K, Q8K};
    decode(&[Q2K, Q3K, Q4K, Q5K, Q6K, Q8K], bytes)
}

/// Decodes formats with code books.
pub(super) fn decode_iq(bytes: &[u8]) -> Outcome {
    use Format::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
    decode(&[Iq1S, Iq1M, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S], bytes)
}

/// Decodes 4-bit formats with non-linear levels.
pub(super) fn decode_iq4(bytes: &[u8]) -> Outcome {
    decode(&[Format::Iq4Nl, Format::Iq4Xs], bytes)
}

/// Decodes formats of one or two bits.
pub(super) fn decode_ternary(bytes: &[u8]) -> Outcome {
    decode(&[Format::Tq1_0, Format::Tq2_0, Format::Q1_0, Format::Q2_0], bytes)
}

/// Decodes 4-bit floats.
pub(super) fn decode_fp4(bytes: &[u8]) -> Outcome {
    decode(&[Format::Mxfp4, Format::Nvfp4], bytes)
}

/// Decodes blocks of the format that the first byte selects. All instruction sets must agree to the bit.
fn decode(formats: &[Format], bytes: &[u8]) -> Outcome {
    let Some((choice, bytes)) = bytes.split_first() else { return empty() };
    let Some(format) = formats.get(usize::from(*choice) % formats.len()) else { return empty() };
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
