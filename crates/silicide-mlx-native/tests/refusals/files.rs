//! GGUF files, and folders of weights.

use mlx_native::weight::load_quantized_weights;
use mlx_native::{GgufFile, MlxDevice, MlxError};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// A file of this test's own, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Scratch {
        let path = std::env::temp_dir().join(format!("silicide-refusals-{}-{name}", std::process::id()));
        File::create(&path).unwrap().write_all(bytes).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A tensor of a header: name, extents with the innermost first, type, offset.
type Entry<'a> = (&'a str, &'a [u64], u32, u64);

fn gguf(version: u32, tensors: &[Entry<'_>], data: usize) -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    for (name, extents, ggml, offset) in tensors {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend((extents.len() as u32).to_le_bytes());
        extents.iter().for_each(|extent| bytes.extend(extent.to_le_bytes()));
        bytes.extend(ggml.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(32) + data, 0);
    bytes
}

/// The types f32 and Q8_0 of a file.
const F32: u32 = 0;
const Q8_0: u32 = 8;

#[test]
fn headers_that_are_no_header_are_refused_when_they_are_opened() {
    let one: Entry<'_> = ("a", &[4], F32, 0);
    let good = gguf(3, &[one], 16);
    assert!(GgufFile::open(&Scratch::new("good", &good).0).is_ok());
    for (name, bytes, text) in [
        ("magic", [b"GGML", &good[4..]].concat(), ""),
        ("version", gguf(4, &[one], 16), "version"),
        ("short", good[..40].to_vec(), ""),
        ("twice", gguf(3, &[one, one], 16), "duplicate tensor name"),
        ("rows", gguf(3, &[("a", &[33], Q8_0, 0)], 64), ""),
        ("type", gguf(3, &[("a", &[4], 99, 0)], 64), ""),
        ("extents", gguf(3, &[("a", &[u64::MAX, u64::MAX], F32, 0)], 64), ""),
    ] {
        let error = GgufFile::open(&Scratch::new(name, &bytes).0).unwrap_err();
        assert!(matches!(error, MlxError::GgufParseError(_) | MlxError::IoError(_)), "{name}: {error}");
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
}

#[test]
fn tensors_past_the_file_are_refused_when_they_are_loaded() {
    let device = MlxDevice::new().unwrap();
    for (name, entry) in [("length", ("a", &[64][..], F32, 0)), ("offset", ("a", &[4], F32, 1 << 40))] {
        let file = Scratch::new(name, &gguf(3, &[entry], 16));
        let file = GgufFile::open(&file.0).unwrap();
        assert!(file.load_tensor("a", &device).is_err(), "{name}");
        assert!(file.read_tensor_bytes_host("a").is_err(), "{name}");
        assert!(file.load_tensor("b", &device).is_err());
    }
}

#[test]
fn mapped_weights_are_read_and_not_written() {
    let device = MlxDevice::new().unwrap();
    let file = Scratch::new("mapped", &gguf(3, &[("a", &[4], F32, 0)], 16));
    let mut weight = GgufFile::open(&file.0).unwrap().load_tensor_mapped("a", &device).unwrap();
    assert_eq!(weight.as_slice::<f32>().unwrap(), [0.0; 4]);
    if weight.is_file_backed() {
        assert!(weight.as_mut_slice::<f32>().unwrap_err().to_string().contains("file-backed"));
        let mut encoder = device.command_encoder().unwrap();
        let source = super::of(&device, mlx_native::DType::F32, 4);
        let error = encoder.blit_copy_bytes(&source, 0, &weight, 0, 16).unwrap_err();
        assert!(error.to_string().contains("file-backed"), "{error}");
    }
}

#[test]
fn folders_without_a_configuration_are_refused() {
    let device = MlxDevice::new().unwrap();
    let folder = std::env::temp_dir().join(format!("silicide-refusals-{}-none", std::process::id()));
    assert!(load_quantized_weights(&folder, &device).is_err());
}
