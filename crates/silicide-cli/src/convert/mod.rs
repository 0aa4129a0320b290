//! `silicide convert`: a model into one GGUF file, its weights in another format if asked.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | which tensor becomes which, and in what format |
//! | `gguf.rs` | plans from GGUF: metadata is copied |
//! | `checkpoint.rs` | plans from safetensors and MLX: names and metadata are translated |
//! | `tokenizer.rs` | `tokenizer.json` as GGUF metadata |
//! | `rows.rs` | rows of any stored tensor as f32 |
//!
//! Tensors are streamed piece by piece: a model never has to fit in memory.

mod checkpoint;
mod gguf;
mod plan;
mod rows;
mod tokenizer;

use crate::error::Error;
use clap::Args;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use plan::{Plan, Recipe, Step};
use rows::Rows;
use silicide_quant::{DType, encode_into};
use silicide_weights::gguf::GgufStream;
use silicide_weights::{Container, Source};
use std::path::PathBuf;

/// Elements that are converted at a time.
const PIECE: usize = 4 << 20;

/// Convert or quantize a model into a GGUF file
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A GGUF or safetensors file, or a directory with a model.
    input: PathBuf,
    /// The GGUF file to write.
    output: PathBuf,
    /// The format of the weights (f32, f16, bf16, q8_0, q4_k, ...), or a mixture (q4_k_m, q5_k_m); as they are, if not
    /// given. Norms and biases stay f32.
    #[arg(long = "type", value_name = "DTYPE", value_parser = parse_type)]
    recipe: Option<Recipe>,
    /// Replace the output if it exists.
    #[arg(long)]
    force: bool,
    /// Threads to encode with; all, if not given.
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

fn parse_type(name: &str) -> Result<Recipe, String> {
    let known = || DType::ALL.into_iter().filter(|dtype| dtype.is_float()).map(DType::name);
    let blocks = || silicide_quant::Format::ALL.into_iter().map(silicide_quant::Format::name);
    let names = || known().chain(blocks()).chain(["q4_k_m", "q5_k_m"]).collect::<Vec<_>>().join(", ");
    Recipe::from_name(&name.to_lowercase()).ok_or_else(|| format!("known are {}", names()))
}

impl Convert {
    pub(crate) fn run(&self) -> Result<(), Error> {
        if self.output.exists() && !self.force {
            return Err(Error::Exists { path: self.output.clone() });
        }
        let source = Source::open(&self.input)?;
        let plan = match source.container() {
            Container::Gguf => gguf::plan(&source, &self.output, self.recipe)?,
            _ => checkpoint::plan(&source, &self.output, self.recipe)?,
        };
        let Plan { writer, steps } = plan;
        let total: u64 = steps.iter().map(|step| step.shape.elements() as u64).sum();
        let bar = ProgressBar::new(total);
        let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {eta:>4} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let mut stream = writer.begin()?;
        for step in &steps {
            bar.set_message(step.name.clone());
            self.convert(&source, step, &mut stream, &bar)?;
        }
        stream.finish()?;
        bar.finish_and_clear();
        let written = std::fs::metadata(&self.output)?.len();
        println!("{}: {} tensors, {}", self.output.display(), steps.len(), HumanBytes(written));
        Ok(())
    }

    fn convert(
        &self,
        source: &Source,
        step: &Step<'_>,
        stream: &mut GgufStream,
        bar: &ProgressBar,
    ) -> Result<(), Error> {
        if step.entry.dtype().ok() == Some(step.dtype) && step.heads.is_none() {
            let data = source.data(&step.entry)?;
            let (size, block) = (step.dtype.block_bytes().max(1), step.dtype.block_len() as u64);
            for piece in data.chunks(PIECE / size * size) {
                stream.write(piece)?;
                bar.inc((piece.len() / size) as u64 * block);
            }
            return Ok(());
        }
        let rows = Rows::new(source, step)?;
        let (width, height) = (rows.width(), rows.height());
        let at_once = (PIECE / width.max(1)).clamp(1, height.max(1));
        let mut values = vec![0.0; at_once * width];
        let mut first = 0;
        while first < height {
            let count = at_once.min(height - first);
            let Some(values) = values.get_mut(..count * width) else { break };
            rows.read(first, values)?;
            let mut bytes = vec![0; values.len() / step.dtype.block_len() * step.dtype.block_bytes()];
            encode_into(step.dtype, values, &mut bytes, self.threads())?;
            stream.write(&bytes)?;
            bar.inc(values.len() as u64);
            first += count;
        }
        Ok(())
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.threads == 0 { all() } else { self.threads }
    }
}
