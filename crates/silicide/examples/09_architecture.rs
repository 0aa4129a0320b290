//! An architecture of your own: its settings, its tensors, its forward pass. The engine captures, fuses and plans the pass.
//!
//! Here attention and feed-forward of a layer read the same input, so that neither waits for the other. It takes the files of Llama, so that
//! the example needs no model of its own: an added architecture takes precedence over one of the same name.
//!
//! `cargo run --release -p silicide --example 09_architecture -- [device] [model file or folder]`

use silicide::llm::Result;
use silicide::llm::model::blocks::{Attention, AttentionOptions, Embedding, FeedForwardKind, Head, Norm};
use silicide::llm::model::config::{
    Config, ConfigDefaults, FeedForwardConfig, Mixture, RopeConfig, Settings,
};
use silicide::llm::model::{
    Architecture, Decoder, ForwardInputs, ModelConfig, PassRecorder, PassValue, Registry, Tensors,
};
use silicide::ops::glu::Activation;
use silicide::ops::rope::RopeStyle;
use silicide::prelude::*;

/// A tiny model with random weights: its text means nothing.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/models/llama-chat.gguf");

/// Names the architecture and reads the settings of a file.
#[derive(Debug)]
struct Parallel;

impl Architecture for Parallel {
    fn name(&self) -> &'static str {
        "llama"
    }

    fn model_types(&self) -> &'static [&'static str] {
        &["llama"]
    }

    fn configure(&self, settings: &Settings<'_>) -> Result<Box<dyn ModelConfig>> {
        let defaults = ConfigDefaults::LLAMA;
        let config = Config::read(settings, &defaults)?;
        let rope = RopeConfig::read(settings, config.head_dim, &defaults)?;
        let feed_forward = FeedForwardConfig::read(settings, Mixture::Never)?;
        Ok(Box::new(ParallelConfig { config, rope, feed_forward }))
    }
}

/// The settings of one model. It takes the tensors of a file by GGUF's names.
#[derive(Debug)]
struct ParallelConfig {
    config: Config,
    rope: RopeConfig,
    feed_forward: FeedForwardConfig,
}

impl ModelConfig for ParallelConfig {
    fn config(&self) -> &Config {
        &self.config
    }

    fn ropes(&self) -> Vec<RopeConfig> {
        vec![self.rope]
    }

    fn load(&self, tensors: &mut Tensors<'_>) -> Result<Box<dyn Decoder>> {
        let hidden = self.config.hidden;
        let style = self.config.rope_style(RopeStyle::Interleaved);
        let options = AttentionOptions { style, rope: 0, qkv_bias: false, head_norms: false };
        let embedding = Embedding::load(tensors, None)?;
        let layers = (0..self.config.layers).map(|layer| {
            Ok(Layer {
                attention_norm: Norm::load(tensors, &format!("blk.{layer}.attn_norm"), hidden)?,
                attention: Attention::load(tensors, layer, options)?,
                feed_forward_norm: Norm::load(tensors, &format!("blk.{layer}.ffn_norm"), hidden)?,
                feed_forward: FeedForwardKind::load(tensors, layer, &self.feed_forward, Activation::Silu)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        let head = Head::load(tensors, &embedding)?;
        Ok(Box::new(ParallelModel { embedding, layers, head }))
    }
}

#[derive(Debug)]
struct ParallelModel {
    embedding: Embedding,
    layers: Vec<Layer>,
    head: Head,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    attention: Attention,
    feed_forward_norm: Norm,
    feed_forward: FeedForwardKind,
}

impl Decoder for ParallelModel {
    fn forward(&self, pass: &mut PassRecorder, inputs: &ForwardInputs<PassValue>) -> Result<PassValue> {
        let mut x = self.embedding.apply(pass, inputs)?;
        for layer in &self.layers {
            let h = layer.attention_norm.apply(pass, &x)?;
            let attended = layer.attention.apply(pass, &h, inputs)?;
            let h = layer.feed_forward_norm.apply(pass, &x)?;
            let fed = layer.feed_forward.apply(pass, &h)?;
            let both = ops::add(pass, &attended, &fed)?;
            x = ops::add(pass, &x, &both)?;
        }
        self.head.apply(pass, &x, inputs)
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = Device::open(&arguments.next().unwrap_or("best".into()))?;
    let path = arguments.next().unwrap_or(SAMPLE.into());
    let mut architectures = Registry::default();
    architectures.add(Parallel);
    let model = Model::options().device(&device).architectures(architectures).open(path)?;
    for piece in model.complete_with("Once upon a time", GenerateOptions::default().max_tokens(20))? {
        // Random weights choose tokens of any bytes.
        print!("{}", piece?.escape_default());
    }
    println!();
    Ok(())
}
