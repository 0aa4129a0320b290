//! Arguments that several commands share: the model, the device, how it runs, how tokens are chosen.
//!
//! | file | what |
//! |---|---|
//! | `model.rs` | the model argument: one rule for every command |
//! | `device.rs` | where a model runs |
//! | `sampler.rs` | how tokens are chosen |
//! | `llama.rs` | the flags of llama.cpp, and their treatment |
//! | `translate.rs` | command lines as llama.cpp's users write them |

mod device;
mod llama;
mod model;
mod sampler;
mod translate;

pub(crate) use device::{DeviceArgs, SplitArgs};
pub(crate) use model::{ModelRef, from_environment};
pub(crate) use sampler::SamplerArgs;
pub(crate) use translate::translate;

use crate::common::progress_bar;
use crate::error::Error;
use crate::facts::LayerFacts;
use crate::output::{detail, is_verbose, note, warning};
use clap::Args;
use indicatif::HumanBytes;
use silicide::CancelToken;
use silicide::graph::{GraphExecutor, KernelDispatches};
use silicide::hal::cpu::Isa;
use silicide_llm::cache::CacheType;
use silicide_llm::engine::{Session, capture_pass};
use silicide_llm::repack::RepackCache;
use silicide_llm::store::StoreError;
use silicide_llm::{Model, ModelOptions};
use silicide_weights::{Load, Source};
use std::sync::Arc;

/// The most threads of the CPU device.
const MOST_THREADS: i64 = 64;

/// Which model, and how it runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(flatten)]
    pub(crate) model: ModelRef,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// How a model runs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Context and memory")]
pub(crate) struct EngineArgs {
    /// Context size in tokens; 0: the context that the model was trained on [default: that, at most 4096]
    #[arg(short, long, value_name = "N", value_parser = tokens, allow_negative_numbers = true)]
    #[arg(env = "SILICIDE_CTX_SIZE", hide_env_values = true)]
    pub(crate) ctx_size: Option<usize>,
    /// Batch size: maximum number of prompt tokens in one pass over the weights [aliases: -ub]
    #[arg(long, default_value_t = 512, value_name = "N", value_parser = tokens, allow_negative_numbers = true)]
    #[arg(env = "SILICIDE_UBATCH_SIZE", hide_env_values = true)]
    pub(crate) ubatch_size: usize,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    /// Do not repack weights for the CPU: use them where the file is mapped [aliases: -nr]
    #[arg(long)]
    pub(crate) no_repack: bool,
    /// Keep the repacked weights in a file in the cache folder, and map that file in later runs. `silicide list` shows it. For the CPU
    #[arg(long, conflicts_with = "no_repack")]
    pub(crate) repack_cache: bool,
    /// Lock the weights in memory, so that the system neither swaps nor drops them. For the CPU, on Unix
    #[arg(long)]
    pub(crate) mlock: bool,
    /// How weight files are read: map (used in place) or copy (read into memory; a file that changes or is truncated later
    /// does no harm) [default: copy on network file systems, map elsewhere]
    #[arg(long, value_name = "HOW", value_parser = load_mode)]
    pub(crate) load: Option<Load>,
    /// The same as --load copy
    #[arg(long, conflicts_with = "load")]
    pub(crate) no_mmap: bool,
}

/// How the KV cache stores keys and values.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Context and memory")]
pub(crate) struct CacheArgs {
    /// Type of the keys in the KV cache: f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0, iq4_nl, or TurboQuant: tq8, tq6, tq5, tq4, tq3,
    /// tq2.25, tq2 [aliases: -ctk]
    #[arg(long, default_value = "f16", value_name = "TYPE", value_parser = cache_type)]
    #[arg(env = "SILICIDE_CACHE_TYPE_K", hide_env_values = true)]
    cache_type_k: CacheType,
    /// Type of the values in the KV cache: one of the same [aliases: -ctv]
    #[arg(long, default_value = "f16", value_name = "TYPE", value_parser = cache_type)]
    #[arg(env = "SILICIDE_CACHE_TYPE_V", hide_env_values = true)]
    cache_type_v: CacheType,
    /// Rotate heads before they are quantized: on or off, for caches of q8_0 to iq4_nl; those of TurboQuant always are [default: on for
    /// all of them but q8_0]
    #[arg(long, value_name = "ON|OFF", value_parser = on_off)]
    #[arg(env = "SILICIDE_CACHE_ROTATE", hide_env_values = true)]
    cache_rotate: Option<bool>,
}

impl CacheArgs {
    /// Sets the types of the cache in `options`.
    pub(crate) fn choose(&self, options: &mut ModelOptions) {
        options.key_type = self.cache_type_k;
        options.value_type = self.cache_type_v;
        options.cache_rotate = self.cache_rotate;
    }
}

/// Parses the value of `--load`.
fn load_mode(name: &str) -> Result<Load, String> {
    match name {
        "map" => Ok(Load::Map),
        "copy" => Ok(Load::Copy),
        _ => Err("expected map or copy".to_owned()),
    }
}

/// Parses a number of threads; 0, and -1 as llama.cpp has it, for one per core.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<i64>() {
        Ok(-1) => Ok(0),
        Ok(count @ 0..=MOST_THREADS) => Ok(count as usize),
        _ => Err(format!("expected a number of threads from 1 to {MOST_THREADS}, or 0 for one per core")),
    }
}

/// Parses a number of tokens.
pub(crate) fn tokens(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a number of tokens from 0 up".to_owned())
}

/// Parses a number of which llama.cpp says -1 for "no limit".
pub(crate) fn unlimited(text: &str) -> Result<usize, String> {
    match text {
        "-1" | "-2" => Ok(usize::MAX),
        text => text.parse().map_err(|_| "expected a number from 0 up, or -1 for no limit".to_owned()),
    }
}

/// Parses an instruction set that this CPU has.
pub(crate) fn isa(name: &str) -> Result<Isa, String> {
    let names = |all: &[Isa]| all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
    let found = Isa::ALL.into_iter().find(|isa| isa.name() == name);
    let found = found.ok_or_else(|| format!("known are {}", names(&Isa::ALL)))?;
    match found.is_available() {
        true => Ok(found),
        false => Err(format!("this CPU has {}", names(&Isa::available()))),
    }
}

fn cache_type(name: &str) -> Result<CacheType, String> {
    CacheType::from_name(name).ok_or_else(|| format!("known are {}", CacheType::names()))
}

/// Parses a switch.
fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("expected on or off".to_owned()),
    }
}

impl ModelArgs {
    /// Opens the device and loads the model, with a progress bar if that takes long.
    pub(crate) fn load(&self, cancel: &CancelToken) -> Result<Model, Error> {
        let path = self.model.path(cancel)?;
        let mut options = ModelOptions::default();
        self.device.choose(&mut options)?;
        options.context = self.engine.ctx_size;
        options.chunk = self.engine.ubatch_size;
        self.engine.cache.choose(&mut options);
        options.repack = !self.engine.no_repack;
        if self.engine.repack_cache {
            options.repack_cache = Some(RepackCache::open().ok_or(StoreError::NoHome)?);
        }
        options.mlock = self.engine.mlock;
        options.files = if self.engine.no_mmap { Some(Load::Copy) } else { self.engine.load };
        options.load.cancel = cancel.clone();
        let bar = progress_bar("loading");
        let watched = bar.clone();
        options.load.progress = Some(Arc::new(move |event| {
            watched.set_length(event.total);
            watched.set_position(event.done);
        }));
        let reading = progress_bar("reading");
        let shown = reading.clone();
        options.reading = Some(Arc::new(move |event| {
            shown.set_length(event.total);
            shown.set_position(event.done);
        }));
        let model = options.open(&path);
        reading.finish_and_clear();
        bar.finish_and_clear();
        let model = model?;
        if let Some(text) = model.repack_note() {
            note(text);
        }
        self.device.split.say_where_experts_run(&model);
        let (context, trained) = (model.cache_options().context, model.description().config.trained_context);
        if context > trained {
            warning(format_args!(
                "a context of {context} tokens is beyond the {trained} that the model was trained on; text past that degrades"
            ));
        }
        if is_verbose() {
            describe(&model);
            let part = model.placement().cpu_part();
            options.device = Some(model.device().clone());
            options.gpu_layers = Some(model.description().layers.len() + 1 - part.cpu_layers);
            options.cpu_experts = Some(part.cpu_experts);
            let pass = capture_pass(&Source::open(&path)?, &options, 1)?;
            for segment in &pass {
                let device = match pass.len() {
                    1 => String::new(),
                    _ => format!(" on {}", segment.graph().device().info().id),
                };
                let (kernels, total) = (kernels(segment), segment.report().dispatches);
                detail(format_args!("kernels{device}: {total} dispatches a token: {kernels}"));
            }
        }
        Ok(model)
    }

    /// Loads the model and begins a session.
    pub(crate) fn session(&self, cancel: &CancelToken) -> Result<Session, Error> {
        Ok(Session::new(&self.load(cancel)?)?)
    }
}

/// Prints facts about the model, and the memory plan.
fn describe(model: &Model) {
    let (description, copied) = (model.description(), model.rearranged());
    detail(format_args!(
        "model: {} ({}), {} layers, vocabulary of {}, trained on {} tokens",
        model.path().display(),
        description.architecture,
        description.layers.len(),
        description.vocabulary,
        description.config.trained_context,
    ));
    if copied.not_interleaved > 0 {
        detail(format_args!(
            "repacking: {} not repacked for lack of memory",
            HumanBytes(copied.not_interleaved)
        ));
    }
    if let Some(layers) = LayerFacts::of(model).text() {
        detail(format_args!("layers: {layers}"));
    }
    let devices = model.devices();
    for (device, fit) in devices.iter().zip(model.device_memory()) {
        let on = if devices.len() > 1 { format!(" on {}", device.info().id) } else { String::new() };
        let interleaved = match device.info().is_gpu() && devices.len() > 1 {
            true => String::new(),
            false => format!(" ({} interleaved)", HumanBytes(copied.bytes)),
        };
        detail(format_args!(
            "memory{on}: {} weights{interleaved}, {} KV cache for {} tokens, {} activations, {} workspaces; {} of {}",
            HumanBytes(fit.weights),
            HumanBytes(fit.cache),
            fit.context,
            HumanBytes(fit.activations),
            HumanBytes(fit.workspaces),
            HumanBytes(fit.needed()),
            HumanBytes(fit.available),
        ));
    }
}

/// Returns the kernels of a captured pass, each with the number of its dispatches.
fn kernels(pass: &GraphExecutor) -> String {
    let counted = pass.dispatches();
    let texts =
        counted.iter().map(|KernelDispatches { kernel, dispatches }| format!("{kernel} x{dispatches}"));
    texts.collect::<Vec<_>>().join(", ")
}
