//! Models of random weights, in any format: for tests that compare a model with itself.

use samples::testdata;
use silicide_quant::{DType, Shape};
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

const HIDDEN: usize = 256;
const FEED_FORWARD: usize = 512;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const VOCABULARY: usize = 320;
const EXPERTS: usize = 6;

/// A model to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RandomModel {
    /// `llama`, `qwen3moe` or `gemma3`.
    pub(crate) architecture: &'static str,
    pub(crate) layers: usize,
    /// The type of all matrices but the router.
    pub(crate) weights: DType,
    /// The type of the router of a mixture.
    pub(crate) router: DType,
}

impl RandomModel {
    /// Returns a Llama of `layers` layers whose matrices have the type `weights`.
    pub(crate) fn llama(weights: DType, layers: usize) -> RandomModel {
        RandomModel { architecture: "llama", layers, weights, router: weights }
    }

    /// Writes the model as GGUF. The tokenizer is that of the test data.
    pub(crate) fn write(self, path: &Path) {
        let mut writer = GgufWriter::new(path);
        self.write_metadata(&mut writer);
        let tensors = self.tensors();
        for (name, axes, dtype) in &tensors {
            writer.tensor(name, Shape::new(axes).unwrap(), *dtype).unwrap();
        }
        let mut random = Random(0x5eed);
        let mut stream = writer.begin().unwrap();
        for (name, axes, dtype) in &tensors {
            let count = axes.iter().product();
            let depth = axes.last().copied().unwrap_or(1) as f32;
            let values: Vec<f32> = match axes.len() {
                // Norms.
                1 => (0..count).map(|_| 1.0 + 0.1 * random.uniform()).collect(),
                _ if name.starts_with("token_embd") => (0..count).map(|_| random.uniform()).collect(),
                _ => (0..count).map(|_| random.uniform() * 2.0 / depth.sqrt()).collect(),
            };
            stream.write(&encoded(*dtype, &values)).unwrap();
        }
        stream.finish().unwrap();
    }

    fn write_metadata(self, writer: &mut GgufWriter) {
        let tokenizer = Source::open(testdata("models/llama-tied.gguf")).unwrap();
        for (key, value) in tokenizer.gguf().first().unwrap().metadata() {
            if key.starts_with("tokenizer.") {
                writer.copy_meta(key, &value).unwrap();
            }
        }
        let architecture = self.architecture;
        let key = |name: &str| format!("{architecture}.{name}");
        writer.meta("general.architecture", architecture).unwrap();
        for (name, value) in [
            ("context_length", 4096),
            ("embedding_length", HIDDEN),
            ("block_count", self.layers),
            ("feed_forward_length", FEED_FORWARD),
            ("attention.head_count", HEADS),
            ("attention.head_count_kv", KV_HEADS),
            ("attention.key_length", HEAD_DIM),
            ("attention.value_length", HEAD_DIM),
            ("rope.dimension_count", HEAD_DIM),
            ("vocab_size", VOCABULARY),
        ] {
            writer.meta(&key(name), &(value as u32)).unwrap();
        }
        writer.meta(&key("attention.layer_norm_rms_epsilon"), &1e-5f32).unwrap();
        writer.meta(&key("rope.freq_base"), &10000f32).unwrap();
        match architecture {
            "qwen3moe" => {
                writer.meta(&key("expert_count"), &(EXPERTS as u32)).unwrap();
                writer.meta(&key("expert_used_count"), &2u32).unwrap();
                writer.meta(&key("expert_feed_forward_length"), &(HIDDEN as u32)).unwrap();
            }
            "gemma3" => writer.meta(&key("attention.sliding_window"), &48u32).unwrap(),
            _ => (),
        }
    }

    /// Names, axes and types of all tensors.
    fn tensors(self) -> Vec<(String, Vec<usize>, DType)> {
        let mut all = vec![("token_embd.weight".to_owned(), vec![VOCABULARY, HIDDEN], self.weights)];
        for layer in 0..self.layers {
            let mut add = |name: &str, axes: &[usize], dtype: DType| {
                all.push((format!("blk.{layer}.{name}.weight"), axes.to_vec(), dtype));
            };
            let mut norms = vec![("attn_norm", HIDDEN), ("ffn_norm", HIDDEN)];
            if self.architecture != "llama" {
                norms.extend([("attn_q_norm", HEAD_DIM), ("attn_k_norm", HEAD_DIM)]);
            }
            if self.architecture == "gemma3" {
                norms.extend([("post_attention_norm", HIDDEN), ("post_ffw_norm", HIDDEN)]);
            }
            for (name, length) in norms {
                add(name, &[length], DType::F32);
            }
            add("attn_q", &[HEADS * HEAD_DIM, HIDDEN], self.weights);
            add("attn_k", &[KV_HEADS * HEAD_DIM, HIDDEN], self.weights);
            add("attn_v", &[KV_HEADS * HEAD_DIM, HIDDEN], self.weights);
            add("attn_output", &[HIDDEN, HEADS * HEAD_DIM], self.weights);
            if self.architecture == "qwen3moe" {
                add("ffn_gate_inp", &[EXPERTS, HIDDEN], self.router);
                for name in ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"] {
                    add(name, &[EXPERTS, HIDDEN, HIDDEN], self.weights);
                }
            } else {
                add("ffn_gate", &[FEED_FORWARD, HIDDEN], self.weights);
                add("ffn_up", &[FEED_FORWARD, HIDDEN], self.weights);
                add("ffn_down", &[HIDDEN, FEED_FORWARD], self.weights);
            }
        }
        all.push(("output_norm.weight".to_owned(), vec![HIDDEN], DType::F32));
        if self.architecture != "gemma3" {
            all.push(("output.weight".to_owned(), vec![VOCABULARY, HIDDEN], self.weights));
        }
        all
    }
}

/// The bytes of `values` as elements or blocks of a type.
fn encoded(dtype: DType, values: &[f32]) -> Vec<u8> {
    match dtype {
        DType::F32 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        DType::F16 => values.iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect(),
        DType::BF16 => values.iter().flat_map(|value| half::bf16::from_f32(*value).to_le_bytes()).collect(),
        DType::Block(format) => {
            let mut bytes = vec![0; format.bytes_of(values.len()).unwrap()];
            format.encode(values, &mut bytes).unwrap();
            bytes
        }
        _ => unreachable!("no type of weights"),
    }
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    /// Returns a number between -1 and 1.
    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
