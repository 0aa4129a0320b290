//! A language model by hand: everything that a decoder of the Llama kind does with a token, from ops alone. It reads any
//! such GGUF file (SmolLM2, Llama, Mistral, without stretched frequencies) and goes on with some token ids.
//!
//! `cargo run --release -p silicide --example 06_forward_pass -- [device] [model.gguf] [token,token,...]`

use silicide::ops::attention::{Attention, AttentionInputs, Visibility, WorkList};
use silicide::ops::glu::Activation;
use silicide::ops::rope::{Frequencies, RopeStyle};
use silicide::weights::{LoadOptions, Loader, Source, Weight};
use silicide::{Buffer, CommandEncoder, DType, Device, ops};
use std::path::{Path, PathBuf};

/// A tiny model with random weights: its text means nothing, its numbers are known.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/models/llama-tied.gguf");

/// Whatever goes wrong: a file, a device, an argument.
type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The longest text.
const CONTEXT: usize = 256;

struct Layer {
    /// In the order of their use.
    norms: [Buffer; 2],
    weights: [Weight; 7],
    keys: Buffer,
    values: Buffer,
}

/// The weights, and what is left of the tokens read so far.
pub(crate) struct Model {
    device: Device,
    embedding: Weight,
    layers: Vec<Layer>,
    norm: Buffer,
    output: Weight,
    heads: usize,
    kv_heads: usize,
    eps: f32,
    frequencies: Frequencies,
    /// Tokens in the cache.
    length: usize,
}

impl Model {
    /// Maps a file and makes an empty cache.
    pub(crate) fn open(device: &Device, path: &Path) -> Result<Model> {
        let source = Source::open(path)?;
        let number = |key: &str, otherwise: f64| {
            source.get(&format!("llama.{key}")).and_then(|value| value.as_f64()).unwrap_or(otherwise)
        };
        let (heads, hidden) = (number("attention.head_count", 1.0), number("embedding_length", 0.0));
        let kv_heads = number("attention.head_count_kv", heads) as usize;
        let head_dim = number("rope.dimension_count", hidden / heads) as usize;
        let base = number("rope.freq_base", 10_000.0);
        let frequencies = Frequencies::new(base, head_dim, None)?;

        let mut loader = Loader::new(device, &source, LoadOptions::default());
        let mut load = |name: &str| loader.load(&format!("{name}.weight"));
        let tensor = |weight: Weight| weight.tensor().cloned().ok_or("a norm is quantized");
        let mut layers = Vec::new();
        for layer in 0..number("block_count", 0.0) as usize {
            let mut part = |name: &str| load(&format!("blk.{layer}.{name}"));
            let [norm, q, k] = [part("attn_norm")?, part("attn_q")?, part("attn_k")?];
            let [v, out, ffn_norm] = [part("attn_v")?, part("attn_output")?, part("ffn_norm")?];
            let [gate, up, down] = [part("ffn_gate")?, part("ffn_up")?, part("ffn_down")?];
            let (norms, weights) = ([tensor(norm)?, tensor(ffn_norm)?], [q, k, v, out, gate, up, down]);
            // What tokens leave behind for later ones: a key and a value for each head.
            let cache = || Buffer::new(device, DType::F32, [kv_heads, CONTEXT, head_dim]);
            layers.push(Layer { norms, weights, keys: cache()?, values: cache()? });
        }
        let (embedding, norm) = (load("token_embd")?, tensor(load("output_norm")?)?);
        // Small models use the embedding as their output matrix too.
        let output = load("output").unwrap_or(embedding.clone());
        loader.finish()?;
        let eps = number("attention.layer_norm_rms_epsilon", 1e-5) as f32;
        let (device, heads) = (device.clone(), heads as usize);
        Ok(Model { device, embedding, layers, norm, output, heads, kv_heads, eps, frequencies, length: 0 })
    }

    /// Feeds `tokens` and returns the logits of each.
    pub(crate) fn forward(&mut self, tokens: &[u32]) -> Result<Buffer> {
        let (device, count, start) = (&self.device, tokens.len(), self.length as u32);
        assert!(self.length + count <= CONTEXT, "the context of {CONTEXT} tokens is full");
        let head_dim = 2 * self.frequencies.pairs();
        let positions = start..start + count as u32;
        let mut angles = Vec::new();
        self.frequencies.table(positions.clone(), &mut angles);
        let angles = Buffer::from_slice(device, [count, head_dim / 2, 2], &angles)?;
        let slots = Buffer::from_slice(device, [count], &positions.collect::<Vec<u32>>())?;
        // Which keys each query sees: those of the tokens up to its own.
        let work = WorkList::buffer(device, &Visibility::causal(CONTEXT), self.length, count)?;
        let tokens = Buffer::from_slice(device, [count], tokens)?;
        let scale = (head_dim as f32).powf(-0.5);
        let rule = Attention { scale, softcap: None };

        let mut commands = CommandEncoder::new(device);
        let encoder = &mut commands;
        let mut x = ops::gather_rows(encoder, &self.embedding, &tokens, DType::F32)?;
        for Layer { norms: [attn_norm, ffn_norm], weights, keys, values } in &self.layers {
            let [wq, wk, wv, wo, gate, up, down] = weights;
            // Queries, keys and values of the new tokens, turned by their positions.
            let h = ops::rms_norm(encoder, &x, Some(attn_norm), self.eps)?;
            let q = ops::linear(encoder, &h, wq, None)?.reshape([count, self.heads, head_dim])?;
            let k = ops::linear(encoder, &h, wk, None)?.reshape([count, self.kv_heads, head_dim])?;
            let v = ops::linear(encoder, &h, wv, None)?.reshape([count, self.kv_heads, head_dim])?;
            let q = ops::rope(encoder, &q, &angles, RopeStyle::Interleaved)?;
            let k = ops::rope(encoder, &k, &angles, RopeStyle::Interleaved)?;
            ops::cache_write(encoder, &k, &slots, keys)?;
            ops::cache_write(encoder, &v, &slots, values)?;
            // Each query takes the mean of the values it sees, by how well their keys fit.
            let inputs = AttentionInputs { q: &q, k: keys, v: values, work: &work, sinks: None };
            let seen = ops::attention(encoder, rule, &inputs)?.reshape([count, self.heads * head_dim])?;
            let h = ops::linear(encoder, &seen, wo, None)?;
            // The feed-forward part looks at each token alone. What attention found is added to it first.
            let (h, sum) = ops::add_rms_norm(encoder, [&h, &x], Some(ffn_norm), self.eps)?;
            let (gate, up) = (ops::linear(encoder, &h, gate, None)?, ops::linear(encoder, &h, up, None)?);
            let h = ops::glu(encoder, Activation::Silu, &gate, &up)?;
            let h = ops::linear(encoder, &h, down, None)?;
            x = ops::add(encoder, &h, &sum)?;
        }
        let x = ops::rms_norm(encoder, &x, Some(&self.norm), self.eps)?;
        let logits = ops::linear(encoder, &x, &self.output, None)?;
        let _ = commands.submit()?; // Reading the logits waits for them, and returns any error.
        self.length += count;
        Ok(logits)
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(&arguments.next().unwrap_or("best".into()))?;
    let path = arguments.next().map_or(SAMPLE.into(), PathBuf::from);
    let given = arguments.next().unwrap_or("1,2,3".into());
    let mut tokens = given.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>()?;
    let mut model = Model::open(&device, &path)?;
    let mut logits = model.forward(&tokens)?;
    for _ in 0..16 {
        // Greedy: the likeliest token of the last row comes next.
        let width = logits.shape().axes()[1];
        let last = logits.slice(logits.elements() - width..logits.elements())?.reshape([1, width])?;
        let mut encoder = CommandEncoder::new(&device);
        let next = ops::argmax(&mut encoder, &last)?;
        let _ = encoder.submit()?;
        tokens.push(next.item::<u32>()?);
        logits = model.forward(&tokens[tokens.len() - 1..])?;
    }
    println!("{tokens:?}");
    Ok(())
}
