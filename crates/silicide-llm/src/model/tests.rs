//! Settings of files that are made here, without a device.

use super::config::{
    ExpertConfig, FeedForwardConfig, Key, Layout, LocalLayers, Mixture, Names, RopeScaling, Settings,
};
use super::{Architecture, ConfiguredModel, Registry, arch};
use crate::error::Error;
use serde_json::{Value, json};
use silicide_quant::{DType, Shape};
use silicide_weights::gguf::GgufWriter;
use silicide_weights::{Bytes, Load, Source};

const LAYERS: usize = 12;

/// Safetensors of `names`, one number each, beside a `config.json`.
fn safetensors(config: &Value, names: &[String]) -> Source {
    let entry = |i: usize| json!({"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]});
    let header: serde_json::Map<_, _> =
        names.iter().enumerate().map(|(i, name)| (name.clone(), entry(i))).collect();
    let header = Value::Object(header).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; 4 * names.len()]);
    let config = silicide_weights::Config::new("config.json", config.to_string());
    Source::from_safetensors(vec![Bytes::from_memory("made", bytes)], Some(config)).unwrap()
}

/// A `config.json`, beside as many tensors as there are layers.
fn checkpoint_source(config: &Value) -> Source {
    let names: Vec<_> = (0..LAYERS).map(|i| format!("tensor.{i}")).collect();
    safetensors(config, &names)
}

/// The model of a `config.json`, beside as many tensors as there are layers.
fn checkpoint(config: &Value) -> Result<ConfiguredModel, Error> {
    Registry::default().configure(&checkpoint_source(config))
}

/// `base` with other settings set.
fn with(mut base: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("an object") };
    base.as_object_mut().unwrap().extend(more);
    base
}

fn llama() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    })
}

/// As little as published files of Gemma 3 say.
fn gemma3() -> Value {
    json!({
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
        "num_hidden_layers": LAYERS, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    })
}

/// The key of the setting that is refused, and the message.
fn refused<T: std::fmt::Debug>(config: Result<T, Error>) -> (String, String) {
    let error = config.unwrap_err();
    let message = error.to_string();
    let Error::Setting { key, .. } = error else { panic!("{message}") };
    (key, message)
}

/// The model of a GGUF file of an architecture, beside as many tensors as there are layers.
fn gguf(architecture: &str, fill: impl FnOnce(&mut GgufWriter)) -> Result<ConfiguredModel, Error> {
    Registry::default().configure(&gguf_source(architecture, fill))
}

fn gguf_source(architecture: &str, fill: impl FnOnce(&mut GgufWriter)) -> Source {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made.gguf");
    let mut writer = GgufWriter::new(&path);
    writer.meta("general.architecture", architecture).unwrap();
    for (key, value) in [
        ("embedding_length", 64u32),
        ("feed_forward_length", 128),
        ("context_length", 512),
        ("attention.head_count", 4),
    ] {
        writer.meta(&format!("{architecture}.{key}"), &value).unwrap();
    }
    writer.meta(&format!("{architecture}.attention.layer_norm_rms_epsilon"), &1e-5f32).unwrap();
    fill(&mut writer);
    for i in 0..LAYERS {
        writer.tensor(&format!("tensor.{i}"), Shape::new(&[1]).unwrap(), DType::F32).unwrap();
    }
    let mut stream = writer.begin().unwrap();
    for _ in 0..LAYERS {
        stream.write(&[0; 4]).unwrap();
    }
    stream.finish().unwrap();
    Source::open_with(&path, Load::Copy).unwrap()
}

/// GGUF with the right number of layers and other settings.
fn gguf_with(architecture: &str, fill: impl FnOnce(&mut GgufWriter)) -> Result<ConfiguredModel, Error> {
    gguf(architecture, |writer| {
        writer.meta(&format!("{architecture}.block_count"), &(LAYERS as u32)).unwrap();
        fill(writer);
    })
}

fn local(model: &ConfiguredModel) -> Vec<bool> {
    model.model().layers().iter().map(|kind| kind.window.is_some()).collect()
}

/// The scaling of the first rotation.
fn scaling(model: &ConfiguredModel) -> RopeScaling {
    model.model().ropes()[0].scaling
}

/// The experts that a file has.
fn experts(source: &Source) -> Option<ExpertConfig> {
    match FeedForwardConfig::read(&Settings::open(source).unwrap(), Mixture::Possible).unwrap() {
        FeedForwardConfig::Experts(experts) => Some(experts),
        FeedForwardConfig::Dense { .. } => None,
    }
}

#[test]
fn gemma_3_has_defaults_for_what_files_omit() {
    let outer = json!({"model_type": "gemma3", "text_config": gemma3()});
    for config in [gemma3(), outer] {
        let model = checkpoint(&config).unwrap();
        let config = model.config();
        assert_eq!((config.heads, config.kv_heads, config.head_dim), (8, 4, 256));
        assert_eq!((config.epsilon, config.trained_context), (1e-6, 131_072));
        assert_eq!((config.scale(), config.tied), (1.0 / 16.0, Some(true)));
        let bases: Vec<f64> = model.model().ropes().iter().map(|rope| rope.base).collect();
        assert_eq!(bases, [1_000_000.0, 10_000.0]);
        assert_eq!(scaling(&model), RopeScaling::Linear { factor: 8.0 });
        assert_eq!(model.model().layers()[0].window, Some(1024));
    }
    let (key, _) = refused(checkpoint(&with(llama(), json!({"num_attention_heads": null}))));
    assert_eq!(key, "num_attention_heads");
}

#[test]
fn language_models_are_found_inside_others() {
    for (table, head) in [
        ("model.embed_tokens.weight", "lm_head.weight"),
        ("language_model.model.embed_tokens.weight", "language_model.lm_head.weight"),
        ("model.language_model.embed_tokens.weight", "lm_head.weight"),
    ] {
        let source = safetensors(&gemma3(), &[table.to_owned()]);
        let names = Names::in_source(&source, Layout::Checkpoint, &arch::Gemma3.conventions());
        assert_eq!(names.in_file("token_embd.weight").as_deref(), Some(table));
        assert_eq!(names.in_file("output.weight").as_deref(), Some(head));
        assert!(names.may_be_left(head));
    }
}

#[test]
fn rotation_is_set_once_or_for_each_kind_of_layer() {
    let flat = json!({"rope_type": "linear", "factor": 8, "rope_theta": 5e5});
    let config = checkpoint(&with(llama(), json!({"rope_parameters": flat}))).unwrap();
    let rope = config.model().ropes()[0];
    assert_eq!((rope.base, rope.scaling), (5e5, RopeScaling::Linear { factor: 8.0 }));

    let kinds = json!({
        "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    });
    let newer = with(gemma3(), json!({"rope_scaling": null, "rope_parameters": kinds}));
    let ropes = checkpoint(&newer).unwrap().model().ropes();
    assert_eq!((ropes[0].base, ropes[1].base), (2e6, 2e4));
    assert_eq!(ropes[0].scaling, RopeScaling::Linear { factor: 4.0 });
    assert_eq!(ropes[1].scaling, RopeScaling::None);

    // Both names of the type at once, as some files have it.
    let twice = json!({"type": "yarn", "rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 8192});
    let config = checkpoint(&with(llama(), json!({"rope_scaling": twice}))).unwrap();
    assert!(matches!(scaling(&config), RopeScaling::Llama3 { .. }));

    for (wrong, named) in [
        (json!({"everywhere": {"rope_theta": 1e6}}), "rope_parameters.everywhere"),
        (json!({"rope_type": "yarn", "factor": 2, "mscale": 0.7}), "rope_parameters.mscale"),
        (json!({"factor": 2}), "rope_parameters.rope_type"),
        (json!({"rope_type": "dynamic", "factor": 2}), "rope_parameters.rope_type"),
        (json!({"rope_type": "linear", "factor": 0}), "rope_parameters.factor"),
        (json!({"rope_type": "linear", "factor": "2"}), "rope_parameters.factor"),
        (json!({"full_attention": {"rope_type": 1}}), "rope_parameters.full_attention.rope_type"),
        (json!([]), "rope_parameters"),
    ] {
        let (key, message) = refused(checkpoint(&with(llama(), json!({"rope_parameters": wrong}))));
        assert_eq!(key, named, "{message}");
    }
    let stretched = json!({
        "full_attention": {"rope_type": "default"},
        "sliding_attention": {"rope_type": "linear", "factor": 2.0},
    });
    let (key, _) = refused(checkpoint(&with(gemma3(), json!({"rope_parameters": stretched}))));
    assert_eq!(key, "rope_parameters.sliding_attention.rope_type");
}

#[test]
fn other_activations_and_softcaps_are_refused() {
    let (key, message) = refused(checkpoint(&with(llama(), json!({"hidden_act": "gelu"}))));
    assert!(key == "hidden_act" && message.contains("silu") && message.contains("gelu"), "{message}");
    let (key, message) = refused(checkpoint(&with(gemma3(), json!({"hidden_activation": "silu"}))));
    assert!(key == "hidden_activation" && message.contains("gelu_pytorch_tanh"), "{message}");
    checkpoint(&with(gemma3(), json!({"hidden_activation": "gelu_pytorch_tanh"}))).unwrap();

    checkpoint(&with(gemma3(), json!({"final_logit_softcapping": null}))).unwrap();
    for key in ["final_logit_softcapping", "attn_logit_softcapping"] {
        assert_eq!(refused(checkpoint(&with(gemma3(), json!({key: 30.0})))).0, key);
        let name = format!("gemma3.{key}");
        let config = gguf_with("gemma3", |writer| writer.meta(&name, &30f32).unwrap());
        assert_eq!(refused(config).0, name);
        gguf_with("gemma3", |writer| writer.meta(&name, &0f32).unwrap()).unwrap();
    }
}

#[test]
fn heads_are_tied_where_the_file_or_the_architecture_says() {
    let tied = |config: Value| checkpoint(&config).unwrap().config().tied;
    assert_eq!(tied(llama()), Some(false));
    assert_eq!(tied(with(llama(), json!({"tie_word_embeddings": true}))), Some(true));
    assert_eq!(tied(with(gemma3(), json!({"tie_word_embeddings": false}))), Some(false));
    let outer = json!({"model_type": "gemma3", "text_config": gemma3(), "tie_word_embeddings": false});
    assert_eq!(tied(outer), Some(false));
    assert_eq!(gguf_with("llama", |_| ()).unwrap().config().tied, None);
}

#[test]
fn attention_factors_of_gguf_multiply_and_those_of_checkpoints_replace() {
    let factor = |attention: &[(&str, f32)]| {
        let config = gguf_with("qwen2", |writer| {
            writer.meta("qwen2.rope.scaling.type", "yarn").unwrap();
            writer.meta("qwen2.rope.scaling.factor", &4f32).unwrap();
            writer.meta("qwen2.rope.scaling.original_context_length", &32u32).unwrap();
            for (key, value) in attention {
                writer.meta(&format!("qwen2.rope.scaling.{key}"), value).unwrap();
            }
        });
        let RopeScaling::Yarn { attention_factor, .. } = scaling(&config.unwrap()) else { panic!("yarn") };
        attention_factor
    };
    let usual = 1.0 + 0.1 * 4f64.ln();
    assert_eq!(factor(&[]), None);
    for (given, expected) in [
        (&[("attn_factor", 0.5)][..], 0.5),
        (&[("yarn_attn_factor", 2.0)], 2.0),
        (&[("attn_factor", 0.5), ("yarn_attn_factor", 0.25)], 0.125),
    ] {
        assert!((factor(given).unwrap() - expected * usual).abs() < 1e-12, "{given:?}");
    }
    let yarn =
        json!({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32, "attention_factor": 0.5});
    let config = checkpoint(&with(llama(), json!({"rope_scaling": yarn}))).unwrap();
    assert!(matches!(scaling(&config), RopeScaling::Yarn { attention_factor: Some(0.5), .. }));
}

#[test]
fn more_layers_than_tensors_are_refused() {
    let (key, message) = refused(gguf("llama", |writer| {
        writer.meta("llama.block_count", &(1u32 << 24)).unwrap();
    }));
    assert!(key == "llama.block_count" && message.contains("12 tensors"), "{message}");
    let (key, message) = refused(checkpoint(&with(llama(), json!({"num_hidden_layers": LAYERS + 1}))));
    assert!(key == "num_hidden_layers" && message.contains("12 tensors"), "{message}");
}

#[test]
fn zeros_mean_nothing_or_are_refused() {
    let config = gguf_with("gemma3", |writer| {
        writer.meta("gemma3.attention.sliding_window", &0u32).unwrap();
        writer.meta("gemma3.attention.scale", &0f32).unwrap();
    });
    let model = config.unwrap();
    assert_eq!(model.config().attention_scale, None);
    assert_eq!(local(&model), [false; LAYERS]);
    for none in [json!(0), json!(null)] {
        let model = checkpoint(&with(gemma3(), json!({"sliding_window": none}))).unwrap();
        assert_eq!(local(&model), [false; LAYERS]);
    }
    let (key, _) = refused(checkpoint(&with(gemma3(), json!({"query_pre_attn_scalar": 0}))));
    assert_eq!(key, "query_pre_attn_scalar");
    let (key, _) = refused(gguf("llama", |writer| writer.meta("llama.block_count", &0u32).unwrap()));
    assert_eq!(key, "llama.block_count");
}

#[test]
fn files_say_which_layers_are_local() {
    let every = |period: usize| (1..=LAYERS).map(|layer| layer % period != 0).collect::<Vec<_>>();
    let config = |more| checkpoint(&with(gemma3(), more)).unwrap();
    assert_eq!(local(&config(json!({}))), every(6));
    assert_eq!(local(&config(json!({"sliding_window_pattern": 3}))), every(3));
    assert_eq!(local(&config(json!({"_sliding_window_pattern": 2}))), every(2));
    let types: Vec<_> =
        every(4).iter().map(|local| if *local { "sliding_attention" } else { "full_attention" }).collect();
    assert_eq!(local(&config(json!({"layer_types": types, "sliding_window_pattern": 6}))), every(4));
    for wrong in [json!({"layer_types": ["full_attention"]}), json!({"sliding_window_pattern": 0})] {
        refused(checkpoint(&with(gemma3(), wrong)));
    }

    let key = "gemma3.attention.sliding_window_pattern";
    let of = |fill: &dyn Fn(&mut GgufWriter)| {
        gguf_with("gemma3", |writer| {
            writer.meta("gemma3.attention.sliding_window", &16u32).unwrap();
            fill(writer);
        })
    };
    assert_eq!(local(&of(&|_| ()).unwrap()), every(6));
    assert_eq!(local(&of(&|writer| writer.meta(key, &3u32).unwrap()).unwrap()), every(3));
    assert_eq!(local(&of(&|writer| writer.meta(key, &every(5)).unwrap()).unwrap()), every(5));
    let (_, message) = refused(of(&|writer| writer.meta(key, &vec![true]).unwrap()));
    assert!(message.contains("12 layers"), "{message}");
    assert!(LocalLayers::AllButLastOf(0).contains(7) && !LocalLayers::AllButLastOf(1).contains(7));
}

#[test]
fn experts_are_checked_against_the_architecture() {
    let of = |architecture: &str, count: u32, used: u32| {
        let key = |name: &str| format!("{architecture}.{name}");
        gguf_source(architecture, |writer| {
            writer.meta(&key("block_count"), &(LAYERS as u32)).unwrap();
            writer.meta(&key("expert_count"), &count).unwrap();
            writer.meta(&key("expert_used_count"), &used).unwrap();
            writer.meta(&key("expert_feed_forward_length"), &24u32).unwrap();
        })
    };
    assert_eq!(experts(&of("llama", 0, 0)), None);
    let of_gguf = experts(&of("qwen3moe", 8, 2)).unwrap();
    assert_eq!((of_gguf.count, of_gguf.used, of_gguf.width, of_gguf.scale), (8, 2, 24, 1.0));
    for (architecture, count, used, key, expected) in [
        ("qwen2", 8, 2, "qwen2.expert_count", "no mixtures of experts"),
        ("llama", 8, 9, "llama.expert_used_count", "between 1 and the 8 experts"),
        ("llama", 8, 0, "llama.expert_used_count", "between 1 and the 8 experts"),
        ("llama", 1025, 2, "llama.expert_count", "at most 1024 experts"),
        ("qwen3moe", 0, 0, "qwen3moe.expert_count", "a count above 0"),
    ] {
        let (got, message) = refused(Registry::default().configure(&of(architecture, count, used)));
        assert!(got == key && message.contains(expected), "{message}");
    }
    let mixtral = json!({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2});
    let of_mixtral = experts(&checkpoint_source(&with(llama(), mixtral))).unwrap();
    assert!(of_mixtral.normalized && of_mixtral.count == 8);
    let qwen = json!({"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48});
    let of_qwen = experts(&checkpoint_source(&with(llama(), qwen.clone()))).unwrap();
    assert!(!of_qwen.normalized && of_qwen.width == 48);
    let (key, _) = refused(checkpoint(&with(with(llama(), qwen), json!({"mlp_only_layers": [0]}))));
    assert_eq!(key, "decoder_sparse_step");
}

#[test]
fn settings_of_another_type_are_refused_by_their_name() {
    for (key, value, expected) in [
        ("hidden_size", json!("64"), "expected a count, got a text"),
        ("hidden_size", json!(-64), "expected a count, got -64"),
        ("hidden_size", json!(0), "expected a count above 0, got 0"),
        ("hidden_size", json!(1u64 << 40), "expected a count up to 16777216, got 1099511627776"),
        ("hidden_size", json!(null), "expected a count above 0, got nothing: the key is missing"),
        ("rms_norm_eps", json!([1]), "expected a finite number, got a list"),
        ("tie_word_embeddings", json!("no"), "expected true or false, got a text"),
        ("model_type", json!(7), "expected a text, got 7"),
    ] {
        let (got, message) = refused(checkpoint(&with(llama(), json!({key: value}))));
        assert_eq!(got, key, "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let (key, message) = refused(gguf("llama", |writer| writer.meta("llama.block_count", "12").unwrap()));
    assert!(key == "llama.block_count" && message.contains("expected a count, got string"), "{message}");
}

#[test]
fn a_key_of_one_kind_of_file_is_absent_in_the_other() {
    let source = checkpoint_source(&llama());
    let settings = Settings::open(&source).unwrap();
    assert_eq!(settings.optional_count(Key::gguf("hidden_size")).unwrap(), None);
    assert_eq!(settings.optional_count(Key::hf("hidden_size")).unwrap(), Some(64));
}

#[test]
fn an_added_architecture_takes_precedence() {
    let mut registry = Registry::default();
    registry.add(arch::LlamaVariant { experts: Mixture::Always, ..arch::VARIANTS[0] });
    let (key, _) = refused(registry.configure(&checkpoint_source(&llama())));
    assert_eq!(key, "num_experts");
    registry.add(arch::LlamaVariant { name: "own", model_types: &["llama"], ..arch::VARIANTS[0] });
    assert_eq!(registry.configure(&checkpoint_source(&llama())).unwrap().architecture(), "own");
}
