//! Attention over caches by type and depth: bytes of the cache in a second for one query, operations for a prompt.
//!
//! The caches of all layers together are about as large at every depth: what changes is the kernel's doing, not that caches
//! of the processor hold a short history and no long one.

use crate::attention::{Bench, MODELS, Model};
use crate::measure::quickest;
use crate::report::{Report, Target};
use anyhow::Context;
use serde_json::json;
use silicide_core::{Device, DeviceOptions, Isa};
use silicide_llm::cache::CacheType;
use silicide_quant::DType;
use silicide_quant::turbo::TurboFormat;
use std::time::Duration;

/// Bytes of all layers' caches.
const DISTINCT: usize = 256 << 20;
/// Layers at most; more of them would measure recording.
const LAYERS: usize = 2048;
/// Time for one figure.
const BUDGET: Duration = Duration::from_millis(300);

/// What is measured.
#[derive(clap::Args)]
pub(crate) struct Depths {
    /// Tokens in the cache.
    #[arg(long, default_values_t = [0, 512, 1024, 2048, 4096, 8192, 16_384], value_delimiter = ',')]
    depths: Vec<usize>,
    /// Numbers of threads.
    #[arg(long, default_values_t = [1, 2], value_delimiter = ',')]
    threads: Vec<usize>,
    /// Tokens of a prompt; 0: no prompt.
    #[arg(long, default_value_t = 512)]
    prompt: usize,
    /// Types of the cache: f16, q8_0, tq4; tq4/tq3 for keys and values.
    #[arg(long, default_value = "f16", value_delimiter = ',')]
    types: Vec<String>,
    /// The instruction set. The best one of the CPU without it.
    #[arg(long)]
    isa: Option<Isa>,
}

/// Returns the element type of heads of `dim` elements.
fn stored(name: &str, dim: usize) -> anyhow::Result<DType> {
    let of = CacheType::from_name(name).with_context(|| format!("known types are {}", CacheType::names()))?;
    Ok(match of {
        CacheType::Turbo(bits) => TurboFormat::for_head(bits, dim)?.into(),
        CacheType::Element(dtype) => dtype,
        other => anyhow::bail!("{other} has no element type here"),
    })
}

pub(crate) fn run(report: &mut Report, of: &Depths) -> anyhow::Result<()> {
    let Depths { depths, threads, prompt, types, isa } = of;
    let prompt = *prompt;
    for &threads in threads {
        let mut options = DeviceOptions::default();
        (options.threads, options.isa) = (Some(threads), *isa);
        let device = Device::open_with("cpu", &options)?;
        for (model, name) in MODELS.into_iter().flat_map(|model| types.iter().map(move |name| (model, name)))
        {
            let Model { heads, kv_heads, dim, .. } = model;
            let (keys, values) = name.split_once('/').unwrap_or((name, name));
            let types = [stored(keys, dim)?, stored(values, dim)?];
            let shape = format!("{heads}/{kv_heads} heads of {dim}");
            report.heading(&format!("Attention over {name} by depth, {shape}, {threads} threads"));
            let about = |kind: &str, depth: usize| json!({"attention": kind, "heads": shape, "depth": depth, "threads": threads, "types": name});
            for &depth in depths.iter().filter(|&&depth| depth > 0) {
                let layers = (DISTINCT / (depth * kv_heads * dim * 4)).clamp(1, LAYERS);
                let bench = Bench::new(&device, Model { layers, ..model }, types, 1, depth - 1)?;
                let seconds = quickest(BUDGET, threads, || bench.run())?;
                let speed = bench.cache_bytes() as f64 / seconds / 1e9;
                report.about(about("query", depth)).row(
                    &format!("one query at {depth}"),
                    speed,
                    0.0,
                    "GB/s",
                    Target::None,
                );
                let tokens = (layers * depth) as f64 / seconds / 1e6;
                report.about(about("keys", depth)).row(
                    &format!("one query at {depth}, keys"),
                    tokens,
                    0.0,
                    "M/s",
                    Target::None,
                );
            }
            for &depth in depths.iter().filter(|_| prompt > 0) {
                let bench = Bench::new(&device, Model { layers: 1, ..model }, types, prompt, depth)?;
                let seconds = quickest(BUDGET, threads, || bench.run())?;
                // Only what queries see counts: all that was there, and half of the square.
                let seen = prompt * depth + prompt * (prompt + 1) / 2;
                let speed = (4 * heads * dim * seen) as f64 / seconds / 1e9;
                report.about(about("prompt", depth)).row(
                    &format!("a prompt of {prompt} at {depth}"),
                    speed,
                    0.0,
                    "GFLOP/s",
                    Target::None,
                );
            }
        }
    }
    Ok(())
}
