//! Benchmarks. Each prints ratios measured in one run, alternating what is compared, with medians and spread: a
//! figure from another hour or machine says nothing here. `README.md` beside this crate has the commands.

mod attention;
mod caches;
mod depths;
mod formats;
mod gpu;
mod gpu_matmul;
mod graph;
mod limits;
mod load;
mod machine;
mod matmul;
mod measure;
mod nothing;
mod pages;
mod pool;
mod quantized;
mod random_model;
mod record;
mod report;
mod rows;
mod select;
mod stream;
mod watched;

use clap::{Parser, Subcommand};
use report::Report;
use silicide_hal::cpu::Isa;
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "Measures silicide against this machine's limits and against its peers")]
struct Arguments {
    #[command(subcommand)]
    what: What,
    /// Print one JSON object per row instead of a table.
    #[arg(long, global = true)]
    json: bool,
    /// Exit with an error when a row misses its target.
    #[arg(long, global = true)]
    assert: bool,
}

#[derive(Subcommand)]
enum What {
    /// The CPU pool: cost of a dispatch, of a group, idle cost, speed beside a busy neighbour.
    Pool,
    /// Streaming ops on 16M elements against copy bandwidth.
    Stream,
    /// Dense matmul against the `gemm` crate.
    Matmul {
        /// Rows, columns and depth.
        #[arg(long, default_value_t = 1024)]
        size: usize,
    },
    /// Matmul by weight format, with the shapes of a small model, against the machine's limits.
    Quantized {
        /// Weight formats: q4_1, q8_0, f16.
        #[arg(long = "format", default_values_t = quantized::formats())]
        formats: Vec<String>,
    },
    /// Matmul by weight format and number of rows, against the machine's limits.
    Rows {
        /// Weight formats: q4_0, q4_0x16 (interleaved), q4_0-exact (decoded and multiplied as it is), mlx4, f16.
        #[arg(long = "format", default_values_t = rows::formats(), value_delimiter = ',')]
        formats: Vec<String>,
        /// Numbers of rows.
        #[arg(long, default_values_t = [1, 2, 4, 8, 16, 32, 64, 512], value_delimiter = ',')]
        rows: Vec<usize>,
        /// Numbers of threads.
        #[arg(long, default_values_t = [1, 2], value_delimiter = ',')]
        threads: Vec<usize>,
        /// The instruction set: portable, avx2, avx-vnni, avx512, neon. The best one of the CPU without it.
        #[arg(long)]
        isa: Option<Isa>,
    },
    /// Attention over f16 caches: one query against memory, a prompt against matmul.
    Attention,
    /// Attention over caches by their type and the number of tokens in them.
    Depths(depths::Depths),
    /// What types of the KV cache cost a model: perplexity of a text, and KL to a cache of f16.
    Caches(caches::Reading),
    /// Keys of a block of attention and their layout, by depth.
    Pages {
        /// Elements of a head.
        #[arg(long, default_value_t = 64)]
        dim: usize,
        /// Queries that share a key.
        #[arg(long, default_value_t = 3)]
        group: usize,
    },
    /// Limits of the machine: memory, products of 8-bit integers, bf16 and f32.
    Limits {
        /// Numbers of threads.
        #[arg(long, default_values_t = [1, 2], value_delimiter = ',')]
        threads: Vec<usize>,
        /// The instruction set of products: avx2, avx-vnni, avx512. The best one of the CPU without it.
        #[arg(long)]
        isa: Option<Isa>,
    },
    /// Writes a model of random weights, the same every time, as F16.
    RandomModel {
        /// Which one.
        #[arg(long)]
        kind: random_model::Kind,
        /// A GGUF file whose tokenizer it gets.
        #[arg(long, value_name = "FILE")]
        tokenizer: PathBuf,
        /// The GGUF file to write.
        output: PathBuf,
    },
    /// Recording a long list and placing its barriers.
    Record,
    /// Recording and submitting on the GPU: Metal on Apple's systems, Vulkan elsewhere.
    Gpu,
    /// Matmul by weight format on the GPU, with the shapes of a small model.
    GpuMatmul {
        /// Weight formats: q4_1, q8_0, f16.
        #[arg(long = "format", default_values_t = quantized::formats())]
        formats: Vec<String>,
    },
    /// Kernels that are picked against the fastest of those that fit, on a grid of shapes.
    Select {
        /// The device.
        #[arg(long, default_value = "cpu")]
        device: String,
    },
    /// Captured passes of a model: time of a capture, and the part of the host in a token.
    Graph {
        /// A GGUF file, such as the one that scripts/fetch-model names.
        #[arg(long, value_name = "FILE")]
        model: PathBuf,
        /// cpu or vulkan.
        #[arg(long, default_value = "cpu")]
        device: String,
        /// Tokens to measure.
        #[arg(long, default_value_t = 64)]
        tokens: usize,
    },
    /// Loading a file of weights: time, and memory beside the weights.
    Load {
        /// The size of the file.
        #[arg(long, default_value_t = 2.0)]
        gigabytes: f64,
    },
    /// The table of formats: error and decode speed of each.
    Formats {
        /// Write it to this file instead of standard output. Formats that the file has keep their speeds.
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
        /// Also measure formats that the file has: after a change of decoders, or on another machine.
        #[arg(long, requires = "write")]
        again: bool,
    },
    /// What has targets, and what is quick.
    All,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let mut report = Report::new(arguments.json);
    match arguments.what {
        What::Pool => pool::run(&mut report)?,
        What::Stream => stream::run(&mut report)?,
        What::Matmul { size } => matmul::run(&mut report, size)?,
        What::Quantized { formats } => quantized::run(&mut report, &formats)?,
        What::Rows { formats, rows, threads, isa } => {
            rows::run(&mut report, &formats, &rows, &threads, isa.unwrap_or_else(limits::best))?;
        }
        What::Attention => attention::run(&mut report)?,
        What::Depths(of) => depths::run(&mut report, &of)?,
        What::Caches(reading) => return caches::run(&reading, arguments.json),
        What::Pages { dim, group } => return pages::run(dim, group),
        What::Limits { threads, isa } => {
            for threads in threads {
                limits::report(&mut report, isa.unwrap_or_else(limits::best), threads)?;
            }
        }
        What::RandomModel { kind, tokenizer, output } => return random_model::run(kind, &tokenizer, &output),
        What::Record => record::run(&mut report)?,
        What::Gpu => gpu::run(&mut report)?,
        What::GpuMatmul { formats } => gpu_matmul::run(&mut report, &formats)?,
        What::Select { device } => select::run(&mut report, &device)?,
        What::Graph { model, device, tokens } => graph::run(&mut report, &model, &device, tokens)?,
        What::Load { gigabytes } => load::run(&mut report, gigabytes)?,
        What::Formats { write, again } => return formats::run(write.as_deref(), again),
        What::All => {
            record::run(&mut report)?;
            pool::run(&mut report)?;
            stream::run(&mut report)?;
            matmul::run(&mut report, 1024)?;
            quantized::run(&mut report, &quantized::formats())?;
            attention::run(&mut report)?;
            gpu::run(&mut report)?;
            load::run(&mut report, 2.0)?;
        }
    }
    let missed = report.finish()?;
    anyhow::ensure!(!arguments.assert || missed == 0, "{missed} rows missed their target");
    Ok(())
}
