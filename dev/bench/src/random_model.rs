//! Models of random weights, for measuring what no small real model shows: weights larger than the caches, and experts.
//!
//! They are the same on every machine: gaussian weights from fixed seeds, stored as F16, with another model's tokenizer.
//! `silicide convert` makes the other formats of them.

use anyhow::Context;
use clap::ValueEnum;
use silicide_quant::{DType, Shape, encode_into};
use silicide_weights::Source;
use silicide_weights::gguf::GgufWriter;
use std::path::Path;

/// The deviation of weights.
const SIGMA: f32 = 0.02;
/// Values that are made and encoded at a time.
const PIECE: usize = 1 << 20;

/// Which model.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Kind {
    /// A dense model of a billion weights: 16 layers of 2048, 32 heads, 8 of them with keys and values.
    #[value(name = "1b")]
    Billion,
    /// Eight layers of 1024 with 32 experts of 512, four of them active.
    Experts,
    /// Eighty narrow layers, as many as a dense model of 70 billion weights has: for the time of a capture.
    Deep,
    /// A dense model that takes no time to make.
    Tiny,
}

/// The sizes of a model.
struct Model {
    architecture: &'static str,
    layers: usize,
    hidden: usize,
    inner: usize,
    heads: usize,
    kv_heads: usize,
    /// Experts, and how many of them see a token.
    experts: Option<(usize, usize)>,
}

impl Kind {
    fn model(self) -> Model {
        let dense = |layers, hidden, inner, heads, kv_heads| Model {
            architecture: "llama",
            layers,
            hidden,
            inner,
            heads,
            kv_heads,
            experts: None,
        };
        match self {
            Kind::Billion => dense(16, 2048, 8192, 32, 8),
            Kind::Deep => dense(80, 256, 512, 4, 2),
            Kind::Tiny => dense(2, 256, 512, 4, 2),
            Kind::Experts => {
                Model { architecture: "qwen3moe", experts: Some((32, 4)), ..dense(8, 1024, 512, 16, 4) }
            }
        }
    }
}

impl Model {
    fn metadata(&self, writer: &mut GgufWriter, vocabulary: usize) -> anyhow::Result<()> {
        let key = |name: &str| format!("{}.{name}", self.architecture);
        let head = self.hidden / self.heads;
        writer.meta("general.architecture", self.architecture)?;
        writer.meta("general.name", "random")?;
        writer.meta("general.file_type", &1u32)?;
        writer.meta(&key("context_length"), &32_768u32)?;
        for (name, value) in [
            ("embedding_length", self.hidden),
            ("block_count", self.layers),
            ("feed_forward_length", self.inner),
            ("attention.head_count", self.heads),
            ("attention.head_count_kv", self.kv_heads),
            ("attention.key_length", head),
            ("attention.value_length", head),
            ("rope.dimension_count", head),
            ("vocab_size", vocabulary),
        ] {
            writer.meta(&key(name), &u32::try_from(value)?)?;
        }
        if let Some((count, active)) = self.experts {
            writer.meta(&key("expert_count"), &u32::try_from(count)?)?;
            writer.meta(&key("expert_used_count"), &u32::try_from(active)?)?;
            writer.meta(&key("expert_feed_forward_length"), &u32::try_from(self.inner)?)?;
        }
        writer.meta(&key("attention.layer_norm_rms_epsilon"), &1e-5f32)?;
        writer.meta(&key("rope.freq_base"), &10_000f32)?;
        Ok(())
    }

    /// Names and shapes of all tensors.
    fn tensors(&self, vocabulary: usize) -> Vec<(String, Vec<usize>)> {
        let (hidden, inner) = (self.hidden, self.inner);
        let head = hidden / self.heads;
        let mut tensors = vec![
            ("token_embd".to_owned(), vec![vocabulary, hidden]),
            ("output_norm".to_owned(), vec![hidden]),
        ];
        for layer in 0..self.layers {
            let mut add =
                |name: &str, shape: &[usize]| tensors.push((format!("blk.{layer}.{name}"), shape.to_vec()));
            add("attn_norm", &[hidden]);
            add("attn_q", &[hidden, hidden]);
            add("attn_k", &[self.kv_heads * head, hidden]);
            add("attn_v", &[self.kv_heads * head, hidden]);
            add("attn_output", &[hidden, hidden]);
            add("ffn_norm", &[hidden]);
            if let Some((count, _)) = self.experts {
                add("attn_q_norm", &[head]);
                add("attn_k_norm", &[head]);
                add("ffn_gate_inp", &[count, hidden]);
                add("ffn_gate_exps", &[count, inner, hidden]);
                add("ffn_up_exps", &[count, inner, hidden]);
                add("ffn_down_exps", &[count, hidden, inner]);
            } else {
                add("ffn_gate", &[inner, hidden]);
                add("ffn_up", &[inner, hidden]);
                add("ffn_down", &[hidden, inner]);
            }
        }
        tensors
    }
}

/// Writes a model whose tokenizer is that of another.
pub(crate) fn run(kind: Kind, tokenizer: &Path, output: &Path) -> anyhow::Result<()> {
    let source = Source::open(tokenizer)?;
    let file = source.gguf().first().context("the tokenizer has to come from a GGUF file")?;
    let tokens = file.get("tokenizer.ggml.tokens").and_then(|value| value.as_array());
    let vocabulary = tokens.context("there are no tokens in the file for the tokenizer")?.len();
    let model = kind.model();
    let mut writer = GgufWriter::new(output);
    model.metadata(&mut writer, vocabulary)?;
    for (key, value) in file.metadata().filter(|(key, _)| key.starts_with("tokenizer.")) {
        writer.copy_meta(key, &value)?;
    }
    let tensors = model.tensors(vocabulary);
    for (name, shape) in &tensors {
        writer.tensor(&format!("{name}.weight"), Shape::new(shape)?, dtype(name))?;
    }
    let mut stream = writer.begin()?;
    let (mut values, mut bytes) = (Vec::new(), Vec::new());
    for (seed, (name, shape)) in tensors.iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(seed as u64);
        let (center, dtype) = (if name.contains("norm") { 1.0 } else { 0.0 }, dtype(name));
        let mut left: usize = shape.iter().product();
        while left > 0 {
            let count = left.min(PIECE);
            values.clear();
            values.extend(std::iter::repeat_with(|| center + SIGMA * gaussian(&mut random)).take(count));
            bytes.resize(count * dtype.block_bytes(), 0);
            encode_into(dtype, &values, &mut bytes, 1)?;
            stream.write(&bytes)?;
            left -= count;
        }
    }
    Ok(stream.finish()?)
}

/// Norms and routers are stored as they are used.
fn dtype(name: &str) -> DType {
    if name.contains("norm") || name.contains("ffn_gate_inp") { DType::F32 } else { DType::F16 }
}

/// A number of a gaussian with deviation 1, by the rule of Box and Muller.
fn gaussian(random: &mut fastrand::Rng) -> f32 {
    let (radius, angle) = (1.0 - random.f32(), random.f32());
    (-2.0 * radius.ln()).sqrt() * (std::f32::consts::TAU * angle).cos()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_every_time() {
        let directory = tempfile::tempdir().unwrap();
        let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/models/llama-tied.gguf");
        let paths = ["a.gguf", "b.gguf"].map(|name| directory.path().join(name));
        for path in &paths {
            run(Kind::Tiny, &testdata, path).unwrap();
        }
        let [a, b] = paths.map(|path| std::fs::read(path).unwrap());
        assert!(a == b);
        let source = Source::open(directory.path().join("a.gguf")).unwrap();
        assert_eq!(source.entry("blk.1.ffn_down.weight").unwrap().shape(), Shape::new(&[256, 512]).unwrap());
    }

    #[test]
    fn weights_are_gaussian() {
        let mut random = fastrand::Rng::with_seed(1);
        let values: Vec<f32> = (0..100_000).map(|_| gaussian(&mut random)).collect();
        let count = values.len() as f32;
        let mean = values.iter().sum::<f32>() / count;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f32>() / count).sqrt();
        assert!(mean.abs() < 0.02 && (deviation - 1.0).abs() < 0.02, "{mean} {deviation}");
    }
}
