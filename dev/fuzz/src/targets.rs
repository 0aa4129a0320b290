//! What a fuzzer calls with bytes. Nothing may panic, and what opens must keep its promises.

use silicide_quant::{Format, Isa, MlxFormat, MlxPlanes};
use silicide_weights::gguf::Value;
use silicide_weights::{Bytes, Config, Entry, SafetensorsFile, Source};
use std::path::Path;

/// A target: a name and what to call.
pub type Target = (&'static str, fn(&[u8]));

/// Every target; `libfuzzer/fuzz_targets` has a file for each.
pub const TARGETS: [Target; 10] = [
    ("gguf", gguf),
    ("safetensors_header", safetensors_header),
    ("mlx_config", mlx_config),
    ("decode_legacy", decode_legacy),
    ("decode_k", decode_k),
    ("decode_iq", decode_iq),
    ("decode_iq4", decode_iq4),
    ("decode_ternary", decode_ternary),
    ("decode_fp4", decode_fp4),
    ("decode_mlx", decode_mlx),
];

/// Opens a GGUF file and touches everything in it.
pub fn gguf(bytes: &[u8]) {
    let Ok(source) = Source::from_gguf(Bytes::from_memory("fuzz", bytes.to_vec())) else { return };
    for file in source.gguf() {
        for (key, value) in file.metadata() {
            walk(&value);
            assert!(file.get(key).is_some(), "a key that is listed is found");
        }
    }
    check_entries(&source, bytes.len());
}

fn walk(value: &Value<'_>) {
    if let Some(array) = value.as_array() {
        let mut count = 0;
        for element in array.iter() {
            assert_eq!(element.kind(), array.kind());
            walk(&element);
            count += 1;
        }
        assert_eq!(count, array.len(), "an array has as many elements as it says");
    }
}

/// Opens a safetensors file and touches everything in it.
pub fn safetensors_header(bytes: &[u8]) {
    let Ok(source) = Source::from_safetensors(vec![Bytes::from_memory("fuzz", bytes.to_vec())], None) else {
        return;
    };
    check_entries(&source, bytes.len());
    // No gaps, no overlaps: header and tensors are the whole file.
    let data: u64 = source.entries().filter_map(|entry| entry.bytes()).sum();
    assert!(data <= bytes.len() as u64);
}

/// Reads MLX settings. What stands before the first zero byte is a `config.json`, the rest the tensors; without a zero
/// byte, a small checkpoint takes their place.
pub fn mlx_config(bytes: &[u8]) {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(at);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let model = if rest.is_empty() { sample() } else { rest.to_vec() };
    let size = model.len();
    let config = Config::new(Path::new("config.json"), text.to_owned());
    let Ok(source) = Source::from_safetensors(vec![Bytes::from_memory("fuzz", model)], Some(config)) else {
        return;
    };
    check_entries(&source, size);
}

/// One quantised module `m` and one tensor beside it.
fn sample() -> Vec<u8> {
    let header = concat!(
        r#"{"m.weight":{"dtype":"U32","shape":[2,8],"data_offsets":[0,64]},"#,
        r#""m.scales":{"dtype":"F16","shape":[2,1],"data_offsets":[64,68]},"#,
        r#""m.biases":{"dtype":"F16","shape":[2,1],"data_offsets":[68,72]},"#,
        r#""norm.weight":{"dtype":"F32","shape":[4],"data_offsets":[72,88]}}"#
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 88, 1);
    bytes
}

fn check_entries(source: &Source, size: usize) {
    assert_eq!(source.entries().count(), source.len());
    for entry in source.entries() {
        assert!(source.entry(entry.name()).is_ok(), "a tensor that is listed is found");
        assert!(entry.bytes().is_none_or(|bytes| bytes <= size as u64));
        check_data(source, &entry);
    }
    assert!(source.safetensors().iter().all(|file: &SafetensorsFile| file.bytes().as_slice().len() == size));
}

fn check_data(source: &Source, entry: &Entry<'_>) {
    if let (Ok(dtype), Ok(data)) = (entry.dtype(), source.data(entry)) {
        assert_eq!(entry.shape().bytes(dtype), Ok(data.len()));
    }
    if let Ok(weight) = source.quantized(entry) {
        let mut values = vec![0.0; weight.shape.elements()];
        assert!(weight.decode(&mut values).is_ok(), "planes fit their format");
    }
}

/// Decodes Q4_0 to Q8_1.
pub fn decode_legacy(bytes: &[u8]) {
    use Format::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1};
    decode(&[Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1], bytes);
}

/// Decodes Q2_K to Q8_K.
pub fn decode_k(bytes: &[u8]) {
    use Format::{Q2K, Q3K, Q4K, Q5K, Q6K, Q8K};
    decode(&[Q2K, Q3K, Q4K, Q5K, Q6K, Q8K], bytes);
}

/// Decodes formats with code books.
pub fn decode_iq(bytes: &[u8]) {
    use Format::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs};
    decode(&[Iq1S, Iq1M, Iq2Xxs, Iq2Xs, Iq2S, Iq3Xxs, Iq3S], bytes);
}

/// Decodes 4-bit formats with non-linear levels.
pub fn decode_iq4(bytes: &[u8]) {
    decode(&[Format::Iq4Nl, Format::Iq4Xs], bytes);
}

/// Decodes formats of one or two bits.
pub fn decode_ternary(bytes: &[u8]) {
    decode(&[Format::Tq1_0, Format::Tq2_0, Format::Q1_0, Format::Q2_0], bytes);
}

/// Decodes 4-bit floats.
pub fn decode_fp4(bytes: &[u8]) {
    decode(&[Format::Mxfp4, Format::Nvfp4], bytes);
}

/// Decodes blocks of the format that the first byte chooses, with every instruction set: all must agree to the bit.
fn decode(formats: &[Format], bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let Some(format) = formats.get(usize::from(*choice) % formats.len()) else { return };
    let blocks = bytes.len() / format.block_bytes();
    let bytes = bytes.get(..blocks * format.block_bytes()).unwrap_or_default();
    agree(blocks * format.block_len(), |isa, out| format.decode_with(isa, bytes, out).is_ok());
}

/// Decodes planes of the MLX format that the first byte chooses.
pub fn decode_mlx(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let formats = MlxFormat::all();
    let Some(format) = formats.get(usize::from(*choice) % formats.len()) else { return };
    let Ok(each) = format.plane_bytes(format.group()) else { return };
    let groups = bytes.len() / (each.packed + each.scales + each.biases);
    let (packed, rest) = bytes.split_at(groups * each.packed);
    let (scales, rest) = rest.split_at(groups * each.scales);
    let biases = rest.get(..groups * each.biases).unwrap_or_default();
    let planes = MlxPlanes { packed, scales, biases };
    agree(groups * format.group(), |isa, out| format.decode_with(isa, planes, out).is_ok());
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
