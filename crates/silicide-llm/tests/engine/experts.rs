//! Mixtures of experts in the other ways that files have them: one tensor for each expert, in GGUF and in safetensors, and planes of
//! MLX, stacked or one by one.

use crate::common::{cpu, cpu_with, devices, exact_session, logits};
use samples::testdata;
use serde_json::{Map, Value, json};
use silicide_core::Isa;
use silicide_llm::engine::Session;
use silicide_llm::{Error, ModelOptions};
use silicide_quant::{DType, Encoding, MlxFormat, MlxMode, MlxPlanes, Shape};
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

const EXPERTS: usize = 8;

/// A tensor of a file.
struct Piece {
    name: String,
    dtype: DType,
    axes: Vec<usize>,
    bytes: Vec<u8>,
}

/// The tensors of the model of GGUF, under other names: of all of a tensor, or of expert `i` of it.
fn pieces(source: &Source, name_of: impl Fn(&str, Option<usize>) -> String) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for entry in source.entries() {
        let bytes = source.data(&entry).unwrap();
        let axes = entry.shape().axes().to_vec();
        if entry.name().contains("_exps") {
            for (i, bytes) in bytes.chunks_exact(bytes.len() / EXPERTS).enumerate() {
                let name = name_of(entry.name(), Some(i));
                pieces.push(Piece {
                    name,
                    dtype: DType::F32,
                    axes: axes[1..].to_vec(),
                    bytes: bytes.to_vec(),
                });
            }
        } else {
            let name = name_of(entry.name(), None);
            pieces.push(Piece { name, dtype: DType::F32, axes, bytes: bytes.to_vec() });
        }
    }
    pieces
}

fn model() -> Source {
    Source::open(testdata("models/qwen3moe.gguf")).unwrap()
}

/// GGUF as it once was, with a tensor for each expert.
fn old_gguf(path: &Path) {
    let source = model();
    let pieces = pieces(&source, |name, expert| match expert {
        Some(expert) => name.replace("_exps.", &format!(".{expert}.")),
        None => name.to_owned(),
    });
    let mut writer = GgufWriter::new(path);
    for (key, value) in source.gguf().first().unwrap().metadata() {
        writer.copy_meta(key, &value).unwrap();
    }
    for piece in &pieces {
        writer.tensor(&piece.name, Shape::new(&piece.axes).unwrap(), piece.dtype).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for piece in &pieces {
        stream.write(&piece.bytes).unwrap();
    }
    stream.finish().unwrap();
}

/// Returns the name of a tensor in a checkpoint, or that of its expert `expert`. Each line of the table replaces a part of GGUF's name.
fn in_checkpoint(name: &str, expert: Option<usize>) -> String {
    let table = std::fs::read_to_string(testdata("models/checkpoint-names.txt")).unwrap();
    let parts = table.lines().map(|line| line.split_once(' ').unwrap());
    let name = parts.fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    match expert {
        Some(expert) => name.replace("switch_mlp", &format!("experts.{expert}")),
        None => name,
    }
}

/// The folder of a checkpoint with the same weights.
fn checkpoint(folder: &Path, more: &Value) {
    write(folder, pieces(&model(), in_checkpoint), more);
}

/// The pieces of a tensor of experts after quantization: its planes, or their decoded values.
fn quantized(piece: &Piece, format: MlxFormat, decoded: bool) -> Vec<Piece> {
    let words = piece.bytes.as_chunks::<4>().0.iter();
    let mut values: Vec<f32> = words.map(|word| f32::from_le_bytes(*word)).collect();
    let bytes = format.plane_bytes(values.len()).unwrap();
    let mut planes = [bytes.packed, bytes.scales, bytes.biases].map(|bytes| vec![0; bytes]);
    let [packed, scales, biases] = &mut planes;
    format.encode(&values, MlxPlanes { packed, scales, biases }, 1).unwrap();
    let (name, axes) = (piece.name.clone(), piece.axes.clone());
    if decoded {
        let [packed, scales, biases] = &planes;
        format.decode(MlxPlanes { packed: &packed[..], scales, biases }, &mut values).unwrap();
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        return vec![Piece { name, dtype: DType::F32, axes, bytes }];
    }
    let (encoding, shape) = (Encoding::Planes(format), Shape::new(&axes).unwrap());
    let pieces = planes.into_iter().zip(["weight", "scales", "biases"]).take(encoding.planes());
    let piece = |(i, (bytes, kind)): (usize, (Vec<u8>, &str))| {
        let plane = encoding.plane(i, &shape).unwrap();
        let name = name.replace(".weight", &format!(".{kind}"));
        Piece { name, dtype: plane.dtype, axes: plane.shape.axes().to_vec(), bytes }
    };
    pieces.enumerate().map(piece).collect()
}

/// The folder of a checkpoint whose experts are quantized.
fn quantized_checkpoint(folder: &Path, format: MlxFormat, stacked: bool, decoded: bool) {
    let mut all = Vec::new();
    for piece in pieces(&model(), |name, expert| format!("{name} {}", expert.map_or(-1, |i| i as i64))) {
        let (name, expert) = piece.name.split_once(' ').unwrap();
        let expert: Option<usize> = expert.parse().ok();
        let named = |expert| Piece {
            name: in_checkpoint(name, expert),
            bytes: piece.bytes.clone(),
            axes: piece.axes.clone(),
            ..piece
        };
        match expert {
            None => all.push(named(None)),
            Some(_) if !stacked => all.extend(quantized(&named(expert), format, decoded)),
            Some(expert) => {
                for part in quantized(&named(None), format, decoded) {
                    match all.iter_mut().find(|all: &&mut Piece| all.name == part.name) {
                        Some(all) => {
                            all.bytes.extend(part.bytes);
                            all.axes[0] = expert + 1;
                        }
                        None => all.push(Piece { axes: [&[1], &part.axes[..]].concat(), ..part }),
                    }
                }
            }
        }
    }
    let settings = json!({"mode": format.mode().name(), "bits": format.bits(), "group_size": format.group()});
    write(folder, all, &if decoded { json!({}) } else { json!({"quantization": settings}) });
}

/// Writes a checkpoint of these tensors, with settings of its own.
fn write(folder: &Path, pieces: Vec<Piece>, more: &Value) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Piece { name, dtype, axes, bytes } in pieces {
        let offsets = [data.len(), data.len() + bytes.len()];
        let dtype = dtype.name().to_uppercase();
        header.insert(name, json!({"dtype": dtype, "shape": axes, "data_offsets": offsets}));
        data.extend(bytes);
    }
    let header = Value::Object(header).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    let mut config = json!({
        "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6, "rope_theta": 1e6,
        "max_position_embeddings": 512, "num_experts": EXPERTS, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "norm_topk_prob": true, "tie_word_embeddings": false, "hidden_act": "silu",
    });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(testdata("models/mlx/llama-bf16").join(name), folder.join(name)).unwrap();
    }
}

#[test]
fn experts_one_by_one_give_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old.gguf");
    old_gguf(&old);
    checkpoint(folder.path(), &json!({}));
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 300).collect();
    for device in devices() {
        let of = |path: &Path| {
            let mut session = exact_session(&device, path, 64);
            let all = logits(&mut session, &tokens, tokens.len());
            (all, logits(&mut session, &tokens, 1))
        };
        let together = of(&testdata("models/qwen3moe.gguf"));
        assert!(of(&old) == together, "GGUF on {}", device.info().id);
        assert!(of(folder.path()) == together, "safetensors on {}", device.info().id);
    }
}

#[test]
fn experts_of_elements_give_the_same_bits_repacked_and_in_place() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 300).collect();
    for name in ["qwen3moe", "mixtral"] {
        let path = testdata(&format!("models/{name}.gguf"));
        let source = Source::open(&path).unwrap();
        let experts = source.entries().filter(|entry| entry.name().contains("_exps"));
        let bytes: u64 = experts.map(|entry| entry.bytes().unwrap()).sum();
        for isa in Isa::available() {
            let of = |repack: bool| {
                let mut options = ModelOptions::default().device(&cpu_with(isa, Some(2))).repack(repack);
                options.context = Some(128);
                let model = options.open(&path).unwrap();
                assert_eq!(model.rearranged().bytes >= bytes, repack, "{name}");
                let mut session = Session::new(&model).unwrap();
                let all = logits(&mut session, &tokens, tokens.len());
                (all, logits(&mut session, &tokens, 1))
            };
            assert!(of(true) == of(false), "{name} with {isa}");
        }
    }
}

#[test]
fn weights_in_planes_give_the_same_bits_repacked_and_in_place() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 300).collect();
    for name in ["llama-4bit", "qwen3moe-4bit"] {
        let path = &testdata(&format!("models/mlx/{name}"));
        let source = Source::open(path).unwrap();
        let planes = source.entries().filter(|entry| entry.planes().is_some());
        let bytes: u64 = planes.map(|entry| entry.bytes().unwrap()).sum();
        for isa in Isa::available() {
            let of = |repack: bool| {
                let mut options = ModelOptions::default().device(&cpu_with(isa, Some(2))).repack(repack);
                options.context = Some(128);
                let model = options.open(path).unwrap();
                let rearranged = model.rearranged().bytes;
                assert_eq!(rearranged >= bytes / 2, repack, "{name}: {rearranged} of {bytes}");
                let mut session = Session::new(&model).unwrap();
                let all = logits(&mut session, &tokens, tokens.len());
                (all, logits(&mut session, &tokens, 1))
            };
            assert!(of(true) == of(false), "{name} with {isa}");
        }
    }
}

#[test]
fn experts_in_planes_are_those_of_their_decoded_weights() {
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 300).collect();
    for (mode, bits, group, scales) in [
        (MlxMode::Affine, 8, 32, DType::BF16),
        (MlxMode::Mxfp4, 4, 32, DType::U8),
        (MlxMode::Mxfp8, 8, 32, DType::U8),
        (MlxMode::Nvfp4, 4, 16, DType::U8),
    ] {
        let format = MlxFormat::new(mode, bits, group, scales).unwrap();
        let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let [decoded, stacked, single] = &folders;
        quantized_checkpoint(decoded.path(), format, false, true);
        quantized_checkpoint(stacked.path(), format, true, false);
        quantized_checkpoint(single.path(), format, false, false);
        for device in devices() {
            let of = |path: &Path| {
                let mut session = exact_session(&device, path, 64);
                [logits(&mut session, &tokens, tokens.len()), logits(&mut session, &tokens, 1)]
            };
            // The CPU quantizes activations for affine codes.
            let rounded = mode == MlxMode::Affine && !device.info().is_gpu();
            let tolerance = if rounded { 1e-2 } else { 1e-9 };
            let (truth, together) = (of(decoded.path()), of(stacked.path()));
            for (got, truth) in together.iter().zip(&truth) {
                let error = crate::common::nmse(got, truth);
                assert!(error < tolerance, "{format} on {}: {error:e}", device.info().id);
            }
            assert!(of(single.path()) == together, "{format} on {}", device.info().id);
        }
    }
}

#[test]
fn experts_of_other_formats_than_the_first_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mixed = |piece: &Piece| {
        let format = MlxFormat::new(MlxMode::Mxfp4, 4, 32, DType::U8).unwrap();
        if piece.name.contains("experts.1.up_proj") { quantized(piece, format, false) } else { Vec::new() }
    };
    let mut all = pieces(&model(), in_checkpoint);
    let planes: Vec<Piece> = all.iter().flat_map(mixed).collect();
    all.retain(|piece| planes.iter().all(|plane| plane.name != piece.name));
    all.extend(planes);
    let settings = json!({"quantization": {"mode": "mxfp4", "bits": 4, "group_size": 32}});
    write(folder.path(), all, &settings);
    let error = ModelOptions::default().device(&cpu(1)).open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("experts.1.up_proj") && error.contains("mxfp4"), "{error}");
}

#[test]
fn weights_that_are_not_normalised_count() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &json!({"norm_topk_prob": false}));
    let tokens = [5, 6, 7];
    let of = |path: &Path| logits(&mut exact_session(&cpu(1), path, 64), &tokens, 3);
    let (plain, normalised) = (of(folder.path()), of(&testdata("models/qwen3moe.gguf")));
    assert!(crate::common::nmse(&plain, &normalised) > 1e-2);
}

#[test]
fn a_missing_expert_is_named() {
    let folder = tempfile::tempdir().unwrap();
    checkpoint(folder.path(), &json!({"num_experts": EXPERTS + 1}));
    let error = ModelOptions::default().device(&cpu(1)).open(folder.path()).unwrap_err();
    // The router is the first to be looked at, and has a row for each.
    assert!(matches!(&error, Error::TensorShape { tensor, .. } if tensor.contains("mlp.gate")), "{error}");
    checkpoint(folder.path(), &json!({"moe_intermediate_size": 64}));
    let error = ModelOptions::default().device(&cpu(1)).open(folder.path()).unwrap_err();
    assert!(
        matches!(&error, Error::TensorShape { tensor, .. } if tensor.contains("experts.0.gate_proj")),
        "{error}"
    );
}
