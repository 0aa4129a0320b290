//! Mixtures of experts in the other ways that files have them: one tensor for each expert, in GGUF and in safetensors.

use crate::common::{cpu, devices, exact_session, logits};
use samples::testdata;
use serde_json::{Map, Value, json};
use silicide_llm::Error;
use silicide_llm::ModelOptions;
use silicide_quant::Shape;
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

const EXPERTS: usize = 8;

/// A tensor of the tiny model, cut by experts where `name_of` gives names for them.
struct Piece {
    name: String,
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
                pieces.push(Piece { name, axes: axes[1..].to_vec(), bytes: bytes.to_vec() });
            }
        } else {
            pieces.push(Piece { name: name_of(entry.name(), None), axes, bytes: bytes.to_vec() });
        }
    }
    pieces
}

fn model() -> Source {
    Source::open(&testdata("models/qwen3moe.gguf")).unwrap()
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
        writer.tensor(&piece.name, Shape::new(&piece.axes).unwrap(), silicide_quant::DType::F32).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for piece in &pieces {
        stream.write(&piece.bytes).unwrap();
    }
    stream.finish().unwrap();
}

/// The name of a tensor in a checkpoint.
fn in_checkpoint(name: &str, expert: Option<usize>) -> String {
    let mut name = name.to_owned();
    for (from, to) in [
        // Before what its name contains.
        ("attn_output.", "self_attn.o_proj."),
        ("token_embd", "model.embed_tokens"),
        ("output_norm", "model.norm"),
        ("output.", "lm_head."),
        ("blk.", "model.layers."),
        ("attn_norm", "input_layernorm"),
        ("ffn_norm", "post_attention_layernorm"),
        ("attn_q_norm", "self_attn.q_norm"),
        ("attn_k_norm", "self_attn.k_norm"),
        ("attn_q.", "self_attn.q_proj."),
        ("attn_k.", "self_attn.k_proj."),
        ("attn_v.", "self_attn.v_proj."),
        ("ffn_gate_inp", "mlp.gate"),
        ("ffn_gate_exps", "mlp.experts.#.gate_proj"),
        ("ffn_up_exps", "mlp.experts.#.up_proj"),
        ("ffn_down_exps", "mlp.experts.#.down_proj"),
    ] {
        name = name.replace(from, to);
    }
    name.replace('#', &expert.unwrap_or(0).to_string())
}

/// The folder of a checkpoint with the same weights.
fn checkpoint(folder: &Path, more: &Value) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for Piece { name, axes, bytes } in pieces(&model(), in_checkpoint) {
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(name, json!({"dtype": "F32", "shape": axes, "data_offsets": offsets}));
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
