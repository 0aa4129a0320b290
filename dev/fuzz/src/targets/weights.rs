//! Weight files: parses the input and reads everything in it.

use crate::target::Outcome;
use silicide_weights::gguf::Value;
use silicide_weights::{Bytes, Config, Entry, SafetensorsFile, Source};
use std::path::Path;

/// Opens a GGUF file and touches everything in it.
pub(super) fn gguf(bytes: &[u8]) -> Outcome {
    let source = match Source::from_gguf(Bytes::from_memory("fuzz", bytes.to_vec())) {
        Ok(source) => source,
        Err(error) => return Outcome::refused(&error),
    };
    for file in source.gguf() {
        for (key, value) in file.metadata() {
            walk(&value);
            assert!(file.get(key).is_some(), "a key that is listed is found");
        }
    }
    check_entries(&source, bytes.len());
    Outcome::Accepted
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
pub(super) fn safetensors_header(bytes: &[u8]) -> Outcome {
    let source = match Source::from_safetensors(vec![Bytes::from_memory("fuzz", bytes.to_vec())], None) {
        Ok(source) => source,
        Err(error) => return Outcome::refused(&error),
    };
    check_entries(&source, bytes.len());
    // No gaps, no overlaps: header and tensors are the whole file.
    let data: u64 = source.entries().filter_map(|entry| entry.bytes()).sum();
    assert!(data <= bytes.len() as u64);
    Outcome::Accepted
}

/// Reads MLX settings. The input is [`split`]; without tensors, a small checkpoint takes their place.
pub(super) fn mlx_config(bytes: &[u8]) -> Outcome {
    let (text, rest) = split(bytes);
    let Ok(text) = std::str::from_utf8(text) else { return Outcome::Refused("Utf8".to_owned()) };
    let model = rest.map_or_else(sample, <[u8]>::to_vec);
    let size = model.len();
    let config = Config::new(Path::new("config.json"), text.to_owned());
    // The text as the file beside it: refused, or settings that answer for any tensor.
    if let Ok(Some(quantization)) = config.as_quantization() {
        let names = quantization.modules.keys().flat_map(|name| [name.clone(), format!("{name}.weight")]);
        for name in names.chain(["m.weight".to_owned()]) {
            let _ = quantization.of_tensor(&name);
        }
    }
    match Source::from_safetensors(vec![Bytes::from_memory("fuzz", model)], Some(config)) {
        Ok(source) => check_entries(&source, size),
        Err(error) => return Outcome::refused(&error),
    }
    Outcome::Accepted
}

/// Splits an input at its first zero byte: a `config.json` before it, a safetensors file after it.
pub(super) fn split(bytes: &[u8]) -> (&[u8], Option<&[u8]>) {
    let at = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    (bytes.get(..at).unwrap_or_default(), bytes.get(at + 1..))
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
