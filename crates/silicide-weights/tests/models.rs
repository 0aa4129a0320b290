//! Tiny models in every container: what they hold, and that the containers agree.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

mod common;

use common::testdata;
use silicide_quant::{DType, Format, MlxFormat, MlxMode, Shape};
use silicide_weights::{Container, Error, Load, Source, Stored};
use std::ops::ControlFlow;

#[test]
fn gguf_models() {
    for (name, dtype) in [
        ("llama-tied", DType::F32),
        ("llama-tied-f16", DType::F16),
        ("llama-tied-q8_0", DType::Block(Format::Q8_0)),
        ("qwen3", DType::F32),
    ] {
        let path = testdata(&format!("models/{name}.gguf"));
        let source = Source::open(&path).unwrap();
        let architecture = source.get("general.architecture").and_then(|value| value.as_str());
        assert_eq!(architecture, Some(if name == "qwen3" { "qwen3" } else { "llama" }));
        let tokens = source.get("tokenizer.ggml.tokens").and_then(|value| value.as_array()).unwrap();
        assert_eq!((tokens.len(), tokens.iter().count()), (320, 320));
        let embedding = source.entry("token_embd.weight").unwrap();
        assert_eq!(embedding.shape(), Shape::new(&[320, 64]).unwrap());
        assert_eq!(embedding.stored(), Stored::As(dtype), "{name}");
        let copied = Source::open_with(&path, Load::Copy).unwrap();
        for entry in source.entries() {
            let data = source.data(&entry).unwrap();
            assert_eq!(Some(data.len() as u64), entry.bytes());
            assert_eq!(data, copied.data(&copied.entry(entry.name()).unwrap()).unwrap());
        }
        let missing = Error::Missing { path, what: "tensor", name: "none".to_owned() };
        assert_eq!(source.entry("none").unwrap_err(), missing);
    }
}

#[test]
fn safetensors_checkpoint() {
    let directory = testdata("models/mlx/llama-bf16");
    let source = Source::open(&directory).unwrap();
    assert_eq!((source.container(), source.len()), (Container::Safetensors, 21));
    let projection = source.entry("model.layers.0.self_attn.k_proj.weight").unwrap();
    assert_eq!(projection.shape(), Shape::new(&[32, 64]).unwrap());
    assert_eq!(projection.stored(), Stored::As(DType::BF16));
    assert_eq!(source.data(&projection).unwrap().len(), 32 * 64 * 2);
    #[derive(serde::Deserialize)]
    struct Model {
        model_type: String,
        hidden_size: usize,
    }
    let config: Model = source.config().unwrap().parse().unwrap();
    assert_eq!((config.model_type.as_str(), config.hidden_size), ("llama", 64));
    // The file alone is the same checkpoint.
    assert_eq!(Source::open(directory.join("model.safetensors")).unwrap().len(), 21);
}

#[test]
fn mlx_checkpoint() {
    let source = Source::open(testdata("models/mlx/llama-4bit")).unwrap();
    let plain = Source::open(testdata("models/mlx/llama-bf16")).unwrap();
    assert_eq!((source.container(), source.len()), (Container::Mlx, plain.len()));
    for entry in source.entries() {
        // The same model, quantised: every logical shape is the same.
        assert_eq!(entry.shape(), plain.entry(entry.name()).unwrap().shape(), "{}", entry.name());
        let name = entry.name();
        if name.contains("norm") {
            assert_eq!(entry.stored(), Stored::As(DType::BF16), "{name}");
            assert!(source.quantized(&entry).is_err());
            continue;
        }
        let bits = if name.contains("embed_tokens") || name.contains("lm_head") { 8 } else { 4 };
        let format = MlxFormat::new(MlxMode::Affine, bits, 64, DType::BF16).unwrap();
        assert_eq!(entry.stored(), Stored::Mlx(format), "{name}");
        let weight = source.quantized(&entry).unwrap();
        let elements = entry.shape().elements();
        let lengths = (weight.planes.packed.len(), weight.planes.scales.len(), weight.planes.biases.len());
        assert_eq!(lengths, (elements * bits / 8, elements / 64 * 2, elements / 64 * 2), "{name}");
        assert!(source.data(&entry).is_err() && entry.dtype().is_err());
    }
}

#[test]
fn settings_may_lie_in_a_file_beside_the_weights() {
    let (from, folder) = (testdata("models/mlx/llama-4bit"), tempfile::tempdir().unwrap());
    let expected = Source::open(&from).unwrap();
    for file in std::fs::read_dir(&from).unwrap().map(|file| file.unwrap().path()) {
        std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    let config = folder.path().join("config.json");
    let mut settings: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&config).unwrap()).unwrap();
    let own = settings.as_object_mut().unwrap().remove("quantization").unwrap();
    settings.as_object_mut().unwrap().remove("quantization_config");
    std::fs::write(&config, settings.to_string()).unwrap();
    assert_eq!(Source::open(folder.path()).unwrap().container(), Container::Safetensors);
    let beside = folder.path().join("quantization_config.json");
    std::fs::write(&beside, own.to_string()).unwrap();
    let source = Source::open(folder.path()).unwrap();
    assert_eq!((source.container(), source.len()), (Container::Mlx, expected.len()));
    for entry in source.entries() {
        let other = expected.entry(entry.name()).unwrap();
        assert_eq!((entry.stored(), entry.shape()), (other.stored(), other.shape()), "{}", entry.name());
        if let Stored::Mlx(format) = entry.stored() {
            let found = source.quantization().unwrap().of_tensor(entry.name()).unwrap();
            assert_eq!((found.bits, found.group), (format.bits(), format.group()));
        }
    }
    std::fs::write(&beside, r#"{"bits": 4, "group_size": 64, "model.norm": {"bits": 9}}"#).unwrap();
    let error = Source::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("quantization_config.json") && error.contains("bits is 9"), "{error}");
}

/// Decoding returns nearly the weights of the model before it was quantized.
#[test]
fn mlx_planes_belong_together() {
    let source = Source::open(testdata("models/mlx/llama-4bit")).unwrap();
    let plain = Source::open(testdata("models/mlx/llama-bf16")).unwrap();
    for entry in source.entries().filter(|entry| entry.planes().is_some()) {
        let mut values = vec![0.0; entry.shape().elements()];
        source.quantized(&entry).unwrap().decode(&mut values).unwrap();
        let before = plain.entry(entry.name()).unwrap();
        let exact = silicide_quant::decode(DType::BF16, &plain.data(&before).unwrap());
        let error: f64 =
            values.iter().zip(&exact).map(|(value, exact)| (f64::from(*value) - exact).powi(2)).sum();
        let power: f64 = exact.iter().map(|exact| exact.powi(2)).sum();
        let bound = if entry.stored().to_string().contains("8-bit") { 1e-4 } else { 2e-2 };
        assert!(error / power < bound, "{}: {}", entry.name(), error / power);
    }
}

#[test]
fn reading_into_memory_reports_every_byte_and_can_be_cancelled() {
    let path = testdata("models/llama-tied.gguf");
    let total = std::fs::metadata(&path).unwrap().len();
    let mut seen = Vec::new();
    let source = Source::open_watched(&path, Load::Copy, &mut |event| {
        assert_eq!((event.path, event.total), (path.as_path(), total));
        seen.push(event.done);
        ControlFlow::Continue(())
    });
    assert_eq!(source.unwrap().files()[0].as_slice(), std::fs::read(&path).unwrap());
    assert_eq!((seen[0], *seen.last().unwrap()), (0, total));

    let cancelled = Source::open_watched(&path, Load::Copy, &mut |_| ControlFlow::Break(()));
    assert!(cancelled.unwrap_err().to_string().contains("cancelled"));
    // A mapped file is not read.
    Source::open_watched(&path, Load::Map, &mut |_| panic!("an event")).unwrap();
}
